"""Progress checks of the demo: growing counts, consecutive ticks (pure)."""

from __future__ import annotations

import math
import time


class Progress:
    """Time of the last change of a count (monotonic seconds)."""

    def __init__(self) -> None:
        self._value: object = None
        self._changed = time.monotonic()

    def note(self, value: object, now: float) -> None:
        """Note the count at ``now``."""
        if value != self._value:
            self._value, self._changed = value, now

    def quiet(self, now: float) -> float:
        """Seconds since it changed."""
        return max(0.0, now - self._changed)


class TickCount:
    """Ticks of one resource set without a frame: tick numbers passed, minus frames applied.

    Tick numbers follow the wall clock whether or not a probe runs, so ticks that passed
    while it was dead or stopped count too.
    """

    def __init__(self) -> None:
        self._base: tuple[int, int, int] | None = None
        self._newest = (0, 0)
        self._earlier = 0
        self._seen = 0.0

    def note(self, epoch: int, tick: int, frames: int, now: float) -> None:
        """Note the newest applied tick and the number of frames applied in this epoch."""
        if self._base is None:
            self._base = epoch, tick, frames
        elif epoch != self._base[0]:
            self._earlier = self._total() + max(0, tick - self._newest[0] - max(1, frames))
            self._base = epoch, tick, frames
        elif (tick, frames) == self._newest:
            return
        self._newest = tick, frames
        self._seen = now

    def missed(self, now: float, interval: float) -> int | None:
        """Ticks without a frame until ``now``; None before the first. The newest may be in transit."""
        if self._base is None:
            return None
        return self._total() + max(0, math.floor((now - self._seen) / interval) - 1)

    def _total(self) -> int:
        assert self._base is not None
        return self._earlier + max(0, (self._newest[0] - self._base[1]) - (self._newest[1] - self._base[2]))
