"""Selection between compiled C steps and their Python definitions.

SHARDPULSE_PURE_PYTHON=1 in the environment chooses the definition everywhere.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import NamedTuple

from acquisition.errors import UnavailableError

SWITCH = "SHARDPULSE_PURE_PYTHON"
NATIVE, NUMPY, PYTHON = "native", "numpy", "python"

_AGAIN = f"recompile it (python setup.py build_ext --inplace, or reinstall shardpulse), or set {SWITCH}=1"
_ABSENT = "nothing"
_ADVICE = (
    "install a C compiler and Python's headers (Debian, Ubuntu: apt install gcc python3-dev) and reinstall "
    "shardpulse; deploy/demo and tests/run then build it automatically"
)


class ChosenStep(NamedTuple):
    """Chosen step: ``name`` is NATIVE, NUMPY or PYTHON, ``reason`` why the native one was not chosen."""

    name: str
    reason: str = ""

    @property
    def text(self) -> str:
        """Readable description."""
        return f"{self.name} step" if not self.reason else f"{self.name} step, slower than native: {self.reason}"


def switched_off() -> bool:
    """Whether the environment forbids the compiled steps."""
    return bool(os.environ.get(SWITCH))


def complete(module: ModuleType, *names: str) -> ModuleType:
    """Compiled step that provides all ``names``. Raises UnavailableError if it was built from older sources."""
    missing = [name for name in names if not hasattr(module, name)]
    if missing:
        raise UnavailableError(
            f"{module.__file__} was compiled from older sources, without {', '.join(missing)}: {_AGAIN}"
        )
    return module


def agree(module: ModuleType, defined: Mapping[str, object]) -> ModuleType:
    """Compiled step whose numbers, offsets and names (AGREED, see acquisition/wire/agreed.h) equal those ``defined``
    in Python. Raises UnavailableError with both values if they differ."""
    taken: dict[str, object] = complete(module, "AGREED").AGREED
    different = [
        f"{name} is {taken.get(name, _ABSENT)} in C and {defined.get(name, _ABSENT)} in Python"
        for name in sorted({*taken, *defined})
        if name not in taken or name not in defined or taken[name] != defined[name]
    ]
    if different:
        raise UnavailableError(f"{module.__file__} was compiled from other sources: {'; '.join(different)}: {_AGAIN}")
    return module


def offsets(fields: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Offset of each field in a little-endian structure of (name, code of the module struct)."""
    found, codes = {}, "<"
    for name, code in fields:
        found[name] = struct.calcsize(codes)
        codes += code
    return found


def chosen(loaded: bool, definition: str) -> ChosenStep:
    """Chosen step: the native one if it was loaded, else its ``definition`` with a remedy."""
    if loaded:
        return ChosenStep(NATIVE)
    return ChosenStep(definition, f"{SWITCH} is set" if switched_off() else _ADVICE)
