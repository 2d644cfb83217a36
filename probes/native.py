"""The probe's step in C, where it could be compiled: the same figures for half of the CPU time.

PROCESSES is the module ``probes.sources._process_step`` and COLUMNS is ``probes._columns``. Where they were not
compiled, or with SHARDPULSE_PURE_PYTHON=1 in the environment, PROCESSES is None, and COLUMNS is ``probes.columns``,
which is the same in Python.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

_DISABLED = "SHARDPULSE_PURE_PYTHON"
NATIVE, PYTHON = "native", "python"


class Chosen(NamedTuple):
    """Which step the probe runs: ``name`` is NATIVE or PYTHON, ``reason`` why not the native one."""

    name: str
    reason: str = ""

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.name} step" if not self.reason else f"{self.name} step, which takes more CPU: {self.reason}"


def chosen() -> Chosen:
    """Which step the probe runs, and what to do for the native one."""
    if PROCESSES is not None:
        return Chosen(NATIVE)
    if os.environ.get(_DISABLED):
        return Chosen(PYTHON, f"{_DISABLED} is set")
    return Chosen(
        PYTHON,
        "install a C compiler and Python's headers (Debian, Ubuntu: apt install gcc python3-dev) and install "
        "shardpulse again; deploy/demo and tests/run build it by themselves then",
    )


def _load() -> tuple[ModuleType | None, ModuleType]:
    try:
        if not os.environ.get(_DISABLED):
            return import_module("probes.sources._process_step"), import_module("probes._columns")
    except ImportError:
        pass
    return None, import_module("probes.columns")


PROCESSES, COLUMNS = _load()
