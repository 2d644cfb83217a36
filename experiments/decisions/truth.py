"""Truth about overload, and scores of a run's alarms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.decisions.load import Bools, Floats

OVERLOADED = 0.9  #: sustained level from which on a host is overloaded
HEALTHY = 0.8  #: below it an alarm is false; between the two it is neither right nor wrong
SHORTEST = 10.0  #: seconds that an overload lasts at least
_AFTERWARDS = 10  #: ticks after an overload in which an alarm is late, not false
_BEFORE = 60  #: ticks before an overload in which an alarm is early, not false, while the level is rising
_JUMP = 0.1


class Overload(NamedTuple):
    """A host is overloaded from ``start`` (seconds, exact within the tick for a jump) to the end of tick ``last``."""

    host: int
    start: float
    first: int
    last: int


class Worth(NamedTuple):
    """``delays`` are seconds from each overload that was noticed to the sample that showed it; 0 where the rule
    was hot already. ``missed`` were over before. ``alarms`` are all that began: what is
    more than overloads and false ones is chatter."""

    delays: npt.NDArray[np.float64]
    missed: int
    false_alarms: int
    alarms: int
    host_hours: float


def overloads(level: Floats) -> list[Overload]:
    """All overloads of the sustained level (T, H) of hosts."""
    return [
        Overload(host, _start(level[:, host], first), first, last)
        for host in range(level.shape[1])
        for first, last in _runs(level[:, host] >= OVERLOADED)
        if last + 1 - first >= SHORTEST
    ]


class Truth(NamedTuple):
    """Verdicts that a rule should give: the overloads, and where (T, H) an alarm is false."""

    overloads: list[Overload]
    healthy: Bools


def truth_of(level: Floats) -> Truth:
    """The truth about the sustained level (T, H) of hosts."""
    return Truth(overloads(level), _healthy(level))


def judge(hot: Bools, level: Floats) -> Worth:
    """Worth of the verdicts (T, H) of a rule."""
    return judge_by(hot, truth_of(level))


def judge_by(hot: Bools, truth: Truth) -> Worth:
    """The same where the truth is known already. A verdict of tick t is had at t + 1, when t was sampled."""
    delays, missed = [], 0
    for each in truth.overloads:
        told = np.flatnonzero(hot[each.first : each.last + 1, each.host])
        if len(told) == 0:
            missed += 1
        else:
            early = each.first > 0 and told[0] == 0 and hot[each.first - 1, each.host]
            delays.append(0.0 if early else each.first + float(told[0]) + 1.0 - each.start)
    begun = rising(hot)
    false = begun & truth.healthy
    return Worth(np.asarray(delays), missed, int(false.sum()), int(begun.sum()), hot.size / 3600.0)


def rising(hot: Bools) -> Bools:
    """Where an alarm begins."""
    begun = hot.copy()
    begun[1:] &= ~hot[:-1]
    return begun


def _healthy(level: Floats) -> Bools:
    """Where an alarm is false: below HEALTHY, no overload has just ended, and none is on its way."""
    overloaded = level >= OVERLOADED
    late, soon = np.zeros_like(overloaded), np.zeros_like(overloaded)
    for ticks in range(1, _AFTERWARDS + 1):
        late[ticks:] |= overloaded[:-ticks]
    for ticks in range(1, _BEFORE + 1):
        soon[:-ticks] |= overloaded[ticks:]
    rising_level = np.zeros_like(overloaded)
    rising_level[1:] = np.diff(level, axis=0) > 1e-4
    return (level < HEALTHY) & ~late & ~(soon & rising_level)


def _runs(flags: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return ((int(first), int(after) - 1) for first, after in zip(edges[::2], edges[1::2], strict=True))


def _start(level: npt.NDArray[np.float32], first: int) -> float:
    """Where a jump began within ``first`` or the tick before it: their means show which part of them had risen."""
    if first < 2:
        return float(first)
    low, before, at, high = (float(level[tick]) for tick in (first - 2, first - 1, first, first + 1))
    if high - low <= _JUMP:
        return float(first)
    risen = (min(max((mean - low) / (high - low), 0.0), 1.0) for mean in (before, at))
    return first + 1.0 - sum(risen)
