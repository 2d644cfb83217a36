"""Monitor of all hosts: samples, windows, moving averages, CUSUM.

The same figures as the filter computes per host (filters.kernels, acquisition.model.inputs), as arrays over H
hosts; only valid samples count, and the moving average knows the time since the last valid one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import numpy.typing as npt

from experiments.decisions.load import Bools, Floats
from experiments.decisions.watch import Watch

Doubles = npt.NDArray[np.float64]
_NEVER = np.inf


class Monitor:
    """State of one way of watching. ``drifts`` are the K of which a CUSUM is kept.

    After ``sample``: ``last`` and ``mean`` (H,), ``valid`` (H,) of the last sample, ``stale`` (H,) seconds since
    the last valid one, ``recent`` and ``means`` (H, W) the last valid values and the averages at the same ticks,
    newest at the end, ``count`` (H,) how many of them there are, ``cusum`` (drifts, H).
    """

    def __init__(self, watch: Watch, hosts: int, window: int, drifts: tuple[float, ...] = ()) -> None:
        self.watch = watch
        self.drifts = np.asarray(drifts, np.float64)
        self.last = np.full(hosts, np.nan)
        self.mean = np.full(hosts, np.nan)
        self.valid = np.zeros(hosts, np.bool_)
        self.stale = np.full(hosts, _NEVER)
        self.recent = np.full((hosts, window), np.nan)
        self.means = np.full((hosts, window), np.nan)
        self.count = np.zeros(hosts, np.int64)
        self.cusum = np.zeros((len(drifts), hosts))
        self._figures: dict[Hashable, Doubles] = {}
        self._sum = np.zeros(hosts)
        self._good = np.zeros(hosts, np.int64)
        self._ticks = 0

    def tick(self, used: Floats, valid: Bools) -> bool:
        """Take a second (H,) in; True where it completed a sample. A sample is the mean of its valid seconds."""
        if self.watch.interval == 1:
            self.sample(used.astype(np.float64), valid)
            return True
        self._sum += np.where(valid, used, 0.0)
        self._good += valid
        self._ticks += 1
        if self._ticks < self.watch.interval:
            return False
        enough = self._good > 0
        self.sample(self._sum / np.maximum(self._good, 1), enough)
        self._sum[:], self._good[:], self._ticks = 0.0, 0, 0
        return True

    def figure(self, key: Hashable, compute: Callable[[], Doubles]) -> Doubles:
        """A figure of the windows, computed once per sample however many settings of a rule ask for it."""
        found = self._figures.get(key)
        if found is None:
            found = self._figures[key] = compute()
        return found

    def sample(self, values: Doubles, valid: Bools) -> None:
        """Take a sample (H,) of every host in."""
        interval = float(self.watch.interval)
        first = valid & np.isinf(self.stale)
        elapsed = np.where(np.isinf(self.stale), 0.0, self.stale) + interval
        alpha = 1.0 - np.exp(-elapsed / self.watch.tau) if self.watch.smoothed else 1.0
        deviation = np.where(valid & ~first, values - self.mean, 0.0)
        grown = np.maximum(self.cusum + deviation - self.drifts[:, None], 0.0)
        self.cusum = np.where(valid & ~first, grown, self.cusum)
        self.mean = self._mean(values, valid, first, alpha * deviation)
        self.last = np.where(valid, values, self.last)
        self.stale = np.where(valid, 0.0, self.stale + interval)
        self.valid = valid.copy()
        self._figures.clear()
        _push(self.recent, values, valid)
        _push(self.means, self.mean, valid)
        self.count += valid

    def _mean(self, values: Doubles, _valid: Bools, first: Bools, change: Doubles) -> Doubles:
        return np.where(first, values, self.mean + change)

    def warm(self, before: Floats) -> None:
        """Take the seconds (B, H) before the run in: as many as fill the windows."""
        wanted = self.recent.shape[1] * self.watch.interval
        everything = np.ones(before.shape[1], np.bool_)
        whole = len(before) // self.watch.interval * self.watch.interval
        for used in before[len(before) - min(wanted, whole) :]:
            self.tick(used, everything)


def _push(window: Doubles, values: Doubles, valid: Bools) -> None:
    if valid.all():
        window[:, :-1] = window[:, 1:]
        window[:, -1] = values
    elif valid.any():
        window[valid, :-1] = window[valid, 1:]
        window[valid, -1] = values[valid]
