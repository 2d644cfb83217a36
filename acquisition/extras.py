"""Which extra of setup.cfg a command needs, for those who have installed another one.

The package itself needs nothing, so that a probe's host gets what a probe needs and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acquisition.errors import UnavailableError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: Commands that are named otherwise than their extra.
_OTHERS = {
    "replay": "probe", "capture": "probe", "config": "probe", "keys": "probe",
    "status": "query", "top": "query", "metrics": "query",
}  # fmt: skip
_OURS = ("acquisition", "probes", "filters")


def of(command: str) -> str:
    """The extra that brings all that a command imports."""
    return _OTHERS.get(command, command)


def missing(command: str, error: ModuleNotFoundError) -> UnavailableError | None:
    """What to tell the user of a module that a command could not import; None for one of our own, which is a fault."""
    module = _foreign(error)
    if not module:
        return None
    return UnavailableError(f"{command} needs the package {module}: pip install 'shardpulse[{of(command)}]'")


def is_absent(entry: EntryPoint, error: Exception) -> bool:
    """Whether an entry point is of a part of this project whose extra is not installed, as ``error`` says."""
    ours = entry.value.partition(".")[0] in _OURS
    return ours and isinstance(error, ModuleNotFoundError) and bool(_foreign(error))


def _foreign(error: ModuleNotFoundError) -> str:
    """The package that is missing; "" for a module of our own."""
    module = (error.name or "").partition(".")[0]
    return "" if module in _OURS else module
