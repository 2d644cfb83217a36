"""Filter step of the product over all hosts at once, and readings of one host from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from acquisition.config.inputs import DEFAULT_COUNTED, DEFAULT_PLATEAU, DEFAULT_WINDOW, Inputs
from acquisition.config.settings import Filter
from acquisition.model import codes
from acquisition.model.inputs import DecisionInputs, Span
from experiments.decisions.load import Bools
from experiments.decisions.monitor import Doubles, Monitor
from experiments.decisions.watch import Watch
from filters.decisions.picture import CPU, Reading
from filters.kernels import mean
from filters.kernels.numpy_step import Batch, advance

TAU = Filter().tau_seconds
THRESHOLD = Inputs().thresholds[f"host.{CPU}"]


class Sample(NamedTuple):
    """One second of all hosts: ``values`` (H,) by the product's name of the metric, and ``valid`` (H,)."""

    values: dict[str, Doubles]
    valid: Bools


class Filtered(Monitor):
    """Windows over the samples of one metric, with the moving average of the product's own filter step."""

    def __init__(self, hosts: int, interval: int, window: int) -> None:
        super().__init__(Watch("filtered", interval, TAU), hosts, window)
        self._planes = np.full((1, hosts), np.nan, np.float32)
        self._exceptions = np.arange(hosts)
        self._ages = np.full(hosts, np.inf, np.float32)

    def _mean(self, values: Doubles, valid: Bools, _first: Bools, _change: Doubles) -> Doubles:
        flags = np.where(valid, codes.VALID, codes.MISSING).astype(np.uint8)
        batch = Batch(
            np.array([len(values)]), values.astype(np.float32), None if valid.all() else flags,
            np.array([float(self.watch.interval)]), np.array([TAU]), self._planes, self._exceptions, self._ages,
        )  # fmt: skip
        done = advance([mean.KERNEL], batch)
        self._planes, self._exceptions = done.planes, done.exceptions
        self._ages = done.ages
        return done.planes[0].astype(np.float64)


class Kept:
    """Last ticks of all hosts, valid or not, for the decision inputs of single hosts at any interval."""

    def __init__(self, hosts: int, interval: int) -> None:
        self.interval = interval
        self._window, self._counted, self._plateau = (
            _samples(span, interval) for span in (DEFAULT_WINDOW, DEFAULT_COUNTED, DEFAULT_PLATEAU)
        )
        self._ticks = np.full((hosts, max(self._window, self._counted, self._plateau)), np.nan)
        self._seen = 0

    def add(self, values: Doubles, valid: Bools) -> None:
        """Take a sample in."""
        self._ticks[:, :-1] = self._ticks[:, 1:]
        self._ticks[:, -1] = np.where(valid, values, np.nan)
        self._seen += 1

    def inputs(self, host: int) -> DecisionInputs:
        """Figures of one host as the filter keeps them for the default thresholds, without CUSUM."""
        window = self._ticks[host, -self._window :]
        valid, counted = window[np.isfinite(window)], self._ticks[host, -self._counted :]
        flat = valid[-self._plateau :] if len(valid) >= self._plateau else None
        q1, median, q3 = np.percentile(valid, (25, 50, 75)) if len(valid) else (None, None, None)
        deviation = float(np.median(np.abs(valid - median))) if len(valid) else None
        return DecisionInputs(
            self._window, len(valid), int((counted > THRESHOLD).sum()), THRESHOLD, 0.0, 0.0, median, deviation, q1, q3,
            0.0, self._seen < self._window, self._counted, int(np.isfinite(counted).sum()), self._plateau,
            None if flat is None else float(flat.min()), None if flat is None else float(flat.max()), True,
            DEFAULT_WINDOW.seconds, DEFAULT_COUNTED.seconds, DEFAULT_PLATEAU.seconds,
        )  # fmt: skip


def _samples(span: Span, interval: int) -> int:
    return max(span.least, round(span.seconds / interval))


def reading(metric: str, seen: Monitor, host: int, kept: Kept | None = None, recent: bool = False) -> Reading:
    """The reading of one host as rules see it."""
    stale = float(seen.stale[host])
    count = min(int(seen.count[host]), seen.recent.shape[1]) if recent else 0
    valid = bool(seen.valid[host])
    return Reading(
        metric,
        mean=float(seen.mean[host]) if np.isfinite(stale) else None,
        last=float(seen.last[host]) if valid else None,
        validity="VALID" if valid else "MISSING",
        age_seconds=0.0,
        stale_seconds=stale if np.isfinite(stale) else None,
        inputs=kept.inputs(host) if kept is not None else None,
        recent=tuple(seen.recent[host, seen.recent.shape[1] - count :].tolist()),
        recent_means=tuple(seen.means[host, seen.means.shape[1] - count :].tolist()),
        interval=float(seen.watch.interval),
    )
