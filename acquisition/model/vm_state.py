"""State of a VM as its host sees it: values of the metric ``state``.

An unknown state is MISSING.
"""

from __future__ import annotations

METRIC = "state"  #: its name

RUNNING = "running"  #: also of a guest that is idle, or that the hypervisor has paused
STOPPED = "stopped"  #: its process has been stopped by a signal (SIGSTOP, a debugger)
INCOMING = "incoming"  #: it was started to receive a guest, none of whose vCPUs has run here yet
UNKNOWN = "unknown"

STATES = (RUNNING, STOPPED, INCOMING)  #: by their numbers, from 1 on


def number_of(state: str) -> float | None:
    """The value of a state, None of UNKNOWN."""
    return float(STATES.index(state) + 1) if state in STATES else None


def state_of(value: float | None) -> str:
    """The state that a value means; UNKNOWN for None and for what is no state."""
    return next((state for number, state in enumerate(STATES, 1) if number == value), UNKNOWN)
