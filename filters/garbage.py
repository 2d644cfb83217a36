"""Garbage collection for a process with many long-lived objects and hardly any cycles.

CPython's collector visits every container again each time that their number has grown by a
quarter: with the state of ten thousand hosts that was 13% of a worker's CPU and pauses of half
a second. Here only what was made since the last sweep is visited, and what survived is set aside
for good (``gc.freeze``). Reference counting goes on freeing everything that is in no cycle; a
cycle that becomes garbage only after it was set aside stays, and we make none.
"""

from __future__ import annotations

import gc

_EVERY = 10.0


class Sweeper:
    """Replaces the automatic collector of this process; call ``turn`` in the main loop."""

    def __init__(self) -> None:
        gc.disable()
        self._due = 0.0

    def turn(self, now: float) -> None:
        """Sweep when it is time; ``now`` is CLOCK_MONOTONIC."""
        if now >= self._due:
            self._due = now + _EVERY
            gc.collect(0)
            gc.freeze()
