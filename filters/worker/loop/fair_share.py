"""Fair share: rate up to which a saturated worker serves each host in full.

Max-min fairness (Bertsekas and Gallager, Data Networks, section 6.5.2): the share L solves
sum(min(rate, L)) = capacity over all hosts. Hosts that make less than L shed nothing, others
are cut down to it. Rates are what hosts *make*, from the counts and the clock in their frames, so that
they do not depend on shedding. The capacity is the rate applied by the worker while it
is saturated, minus a reserve in which the backlog shrinks. A worker that is not saturated has no
fair share: no host has to shed for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from filters.worker.states.state import State

#: Fraction of time that a saturated worker works, and fraction of its capacity that is distributed.
_SATURATED = 0.8
_GIVEN = 0.8
_PERIOD = 1.0


def solve(rates: Collection[float], capacity: float) -> float:
    """L of sum(min(rate, L)) = ``capacity``; 0.0, no limit, if all rates fit."""
    ordered = np.sort(np.fromiter(rates, np.float64, len(rates)))
    if ordered.sum() <= capacity:
        return 0.0
    below = np.concatenate(([0.0], np.cumsum(ordered)[:-1]))  # sum of the smaller rates
    shares = (capacity - below) / np.arange(ordered.size, 0, -1)
    return float(shares[np.argmax(shares <= ordered)])


class _Made(NamedTuple):
    """Progress of a resource set; ``rate``: samples made by its host between the last two readings, per second."""

    epoch: int
    made: int
    monotonic: float
    rate: float


class FairShare:
    """Measured every second, only while the worker is saturated; ``rate`` in samples/s, 0: none."""

    def __init__(self) -> None:
        self.rate = 0.0
        self._at = 0.0
        self._samples = 0
        self._made: dict[tuple[int, int], _Made] = {}

    def measure(self, now: float, busy: float, samples: int, states: Iterable[State]) -> None:
        """``busy``: fraction of its time that the worker works; ``samples``: number applied so far."""
        if busy < _SATURATED:
            self.rate = self._at = 0.0
            self._made.clear()
        elif not self._at:
            self._rates(states)
            self._at, self._samples = now, samples
        elif now >= self._at + _PERIOD:
            applied = (samples - self._samples) / (now - self._at)
            self.rate = solve(self._rates(states), _GIVEN * applied)
            self._at, self._samples = now, samples

    def _rates(self, states: Iterable[State]) -> Collection[float]:
        """Samples per second made by each host."""
        rates: dict[int, float] = {}
        made: dict[tuple[int, int], _Made] = {}
        for state in states:
            key, track = (state.host, state.resource_set), state.track
            newest = state.newest
            before = self._made.get(key, _Made(track.epoch, track.made, newest, 0.0))
            rate, elapsed = before.rate, newest - before.monotonic
            if before.epoch == track.epoch and elapsed > 0.0:
                rate = (track.made - before.made) / elapsed
            made[key] = _Made(track.epoch, track.made, newest, rate)
            rates[state.host] = rates.get(state.host, 0.0) + rate
        self._made = made
        return rates.values()
