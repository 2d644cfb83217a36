"""Schedule of modules: deadlines on the wall clock's grid.

They are awaited on the monotonic clock.

Tick t of an interval of i seconds covers the wall-clock time [t i, (t + 1) i)
(``acquisition.model.ticks``). A host samples at a phase of the interval hashed from its
id, which spreads the load over the interval. Each deadline is recomputed from the
pair of clocks, so that lateness never adds up and a stepped wall clock re-anchors the
grid at the next tick; that readings then go back in time is marked by the order check.
"""

from __future__ import annotations

import math

from acquisition.model.ticks import tick_of

#: Phases keep off the borders of the interval by this part of it, so that a wall clock that
#: is slewed between two ticks does not push a sample into the neighbouring tick.
MARGIN = 0.05
_WITH_MIDDLE = 0.5  #: seconds: the shortest interval with a check in its middle


def phase_of(host: int, interval: float) -> float:
    """Seconds after the start of an interval at which the host with this id samples."""
    fraction = (host >> 16 & 0xFFFFFFFF) / 2**32
    return interval * (MARGIN + (1 - 2 * MARGIN) * fraction)


def next_deadline(wall: float, monotonic: float, interval: float, phase: float) -> float:
    """Monotonic time of the first sampling moment after now."""
    tick = tick_of(wall - phase, interval) + 1
    return monotonic + max(0.0, tick * interval + phase - wall)


class Schedule:
    """Deadlines of modules that tick together, and the account of how well they were kept.

    ``deadline`` is on CLOCK_MONOTONIC; ``tick`` is the number of the newest one, initially that of its creation;
    ``middle`` is the time for a check between it and the next, inf if there is none. ``ticks``, ``missed``,
    ``late_seconds`` (sum) and ``latest_seconds`` (maximum) describe the past.
    """

    __slots__ = (
        "_last", "deadline", "interval", "late_seconds", "latest_seconds", "middle", "missed", "phase", "tick", "ticks",
    )  # fmt: skip

    def __init__(self, interval: float, phase: float, wall: float, monotonic: float) -> None:
        self.interval = interval
        self.phase = phase
        self.ticks = 0
        self.missed = 0
        self.late_seconds = 0.0
        self.latest_seconds = 0.0
        self._last = 0.0
        self.tick = tick_of(wall, interval)
        self.deadline = next_deadline(wall, monotonic, interval, phase)
        self.middle = math.inf

    def begin(self, wall: float, monotonic: float) -> int:
        """Count the tick that is due now, set the next deadline, and return the tick's number."""
        late = monotonic - self.deadline
        if late > 0.0:
            self.late_seconds += late
            self.latest_seconds = max(self.latest_seconds, late)
        self.tick = tick_of(wall, self.interval)
        moment = monotonic + (self.tick * self.interval + self.phase - wall)  # when it should have begun
        # by the monotonic clock: a step of the wall clock skips numbers, but misses nothing
        if self.ticks and moment - self._last >= 1.5 * self.interval:
            self.missed += math.floor((moment - self._last) / self.interval + 0.5) - 1
        self._last = moment
        self.ticks += 1
        self.deadline = moment + self.interval  # a tick has one reading, even if it was late or early
        if self.interval >= _WITH_MIDDLE:
            self.middle = self.deadline - self.interval / 2
        return self.tick

    def take_middle(self, monotonic: float) -> bool:
        """Whether to check now, between two ticks: once, and not shortly before the next one."""
        due = self.middle <= monotonic
        if due:
            self.middle = math.inf
        return due and monotonic <= self.deadline - self.interval / 4
