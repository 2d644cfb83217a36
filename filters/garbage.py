"""Garbage collection for a process with many long-lived objects and hardly any cycles.

CPython's collector visits every container again each time that their number has grown by a
quarter: with the state of ten thousand hosts that was 13% of a worker's CPU and pauses of half
a second. Here only what was made since the last sweep is visited, and what survived is set aside
for good (``gc.freeze``). Reference counting goes on freeing everything that is in no cycle; a
cycle that becomes garbage only after it was set aside stays, and we make none.
"""

from __future__ import annotations

import gc
import math

_EVERY = 10.0


class Sweeper:
    """Replaces the automatic collector of this process; call ``turn`` in the main loop.

    ``whole_seconds``: so often everything is visited, also what was set aside, for a process whose libraries may
    make cycles that live longer than a sweep.
    """

    def __init__(self, whole_seconds: float = math.inf) -> None:
        gc.disable()
        self._due = 0.0
        self._whole_seconds = whole_seconds
        self._whole_due = math.inf

    def turn(self, now: float) -> None:
        """Sweep when it is time; ``now`` is CLOCK_MONOTONIC."""
        if now < self._due:
            return
        if self._due == 0.0:
            self._whole_due = now + self._whole_seconds
        self._due = now + _EVERY
        if now >= self._whole_due:
            self._whole_due = now + self._whole_seconds
            gc.unfreeze()
            gc.collect()
        else:
            gc.collect(0)
        gc.freeze()
