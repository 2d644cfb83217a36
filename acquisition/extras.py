"""Which extra of setup.cfg a command needs, for those who have installed another one.

The package itself needs nothing, so that a probe's host gets what a probe needs and nothing else.
"""

from __future__ import annotations

from acquisition.errors import UnavailableError

#: Commands that are named otherwise than their extra.
_OTHERS = {"replay": "probe", "config": "query", "status": "query", "top": "query", "metrics": "query"}
_OURS = ("acquisition", "probes", "filters")


def of(command: str) -> str:
    """The extra that brings all that a command imports."""
    return _OTHERS.get(command, command)


def missing(command: str, error: ModuleNotFoundError) -> UnavailableError | None:
    """What to tell the user of a module that a command could not import; None for one of our own, which is a fault."""
    module = (error.name or "").partition(".")[0]
    if not module or module in _OURS:
        return None
    return UnavailableError(f"{command} needs the package {module}: pip install 'shardpulse[{of(command)}]'")
