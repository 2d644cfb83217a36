"""State of a VM as its host sees it: values of the metric ``state``.

An unknown state is MISSING.
"""

from __future__ import annotations

METRIC = "state"  #: its name

RUNNING = "running"  #: also for a guest that is idle, or paused by the hypervisor
STOPPED = "stopped"  #: its process has been stopped by a signal (SIGSTOP, a debugger)
INCOMING = "incoming"  #: started to receive a guest; none of its vCPUs has run here yet
UNKNOWN = "unknown"

STATES = (RUNNING, STOPPED, INCOMING)  #: by their numbers, from 1 on


def number_of(state: str) -> float | None:
    """Value of a state, None for UNKNOWN."""
    return float(STATES.index(state) + 1) if state in STATES else None


def state_of(value: float | None) -> str:
    """State for a value; UNKNOWN for None and for invalid values."""
    return next((state for number, state in enumerate(STATES, 1) if number == value), UNKNOWN)
