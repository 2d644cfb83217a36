"""Step load of a host: calm, with steps of known onset."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

BASE, STEP, DEVIATION, CORRELATION = 0.6, 0.35, 0.02, 0.5
_ANYWHERE = 10.0  #: seconds at the beginning of a cycle in which its step begins
_CALM_SECONDS, _CALM_TICKS = 25.0, 2  #: minimum between two steps, for the average to forget the first
_TICKS = 10  #: shortest step in ticks; a step that is not detected within it is missed
_SECONDS = 20.0  #: longer than a burst of its host as learned by a rule (filters.worker.inputs.bursts)


class Shape(NamedTuple):
    """``hold`` is the duration of a step, ``cycle`` from its earliest onset to that of the next, seconds."""

    hold: float
    cycle: float


def shape_of(interval: float) -> Shape:
    """A shape long enough for hosts with this interval in seconds."""
    hold = max(_SECONDS, _TICKS * interval)
    return Shape(hold, _ANYWHERE + hold + _CALM_SECONDS + _CALM_TICKS * interval)


def onsets_of(begin: float, hosts: int, steps: int, shape: Shape, seed: int) -> list[list[float]]:
    """Onsets of each host, seconds since 1970: at random moments, one in each cycle from ``begin``."""
    chance = random.Random(f"onsets {seed}")
    return [
        [begin + cycle * shape.cycle + chance.uniform(0.0, _ANYWHERE) for cycle in range(steps)] for _ in range(hosts)
    ]


class Load:
    """One host; ``sample`` is called for consecutive intervals."""

    def __init__(self, seed: int, index: int) -> None:
        self._chance = random.Random(f"load {seed} {index}")
        self._noise = self._chance.gauss(0.0, DEVIATION)
        self._onsets: Sequence[float] = ()
        self._hold = 0.0

    def rise(self, onsets: Sequence[float], hold: float) -> None:
        """Let the load step up at each of these moments, for ``hold`` seconds."""
        self._onsets, self._hold = onsets, hold

    def sample(self, start: float, end: float) -> float:
        """The mean over an interval, as from counters of CPU time, with its noise."""
        fresh = self._chance.gauss(0.0, DEVIATION) * (1.0 - CORRELATION**2) ** 0.5
        self._noise = CORRELATION * self._noise + fresh
        risen = sum(max(0.0, min(end, onset + self._hold) - max(start, onset)) for onset in self._onsets)
        return min(1.0, max(0.0, BASE + STEP * risen / (end - start) + self._noise))
