"""Recent values: the last ticks of a resource set, from the filter's ring.

The ring is described in ``acquisition.wire.records.recent``.

The ring holds raw values, the monotonic time of each row, and moving averages now and then (seeds); the averages
between are recomputed as the filter computed them (``filters.kernels.mean``)::

    mean = mean + alpha (raw - mean),   alpha = 1 - exp(-elapsed / tau)

with ``elapsed`` since the entity's last valid row. Before the oldest seed the same is done backwards, as long as that
does not magnify the rounding of the seed too much.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from acquisition.errors import FrameError
from acquisition.model import codes, ticks
from acquisition.model.inputs import Recent
from acquisition.snapshot.values.block import finite
from acquisition.wire.records import recent
from acquisition.wire.records.recent import GONE, Ring

#: Limit for the magnification of a seed's rounding on the way back.
_MOST_MAGNIFIED = 1e4


class ValidValues(NamedTuple):
    """Valid values, oldest first: ``steps`` number their ticks without a break, ``smoothed`` are the moving
    averages at the same ticks, NaN if unknown."""

    steps: list[int]
    raw: list[float]
    smoothed: list[float]


class _Series(NamedTuple):
    """Rows of one entity and metric in which it was present, oldest first; ``mean`` NaN if unknown."""

    steps: list[int]
    walls: list[float]
    raw: list[float]
    mean: list[float]
    codes: list[int]


class RecentTable:
    """Recent ticks of one resource set, oldest first; missing ticks are not included."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._rows = ring.order()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics with recent values."""
        return self._ring.names

    def series(self, entity: int, metric: str) -> list[Recent]:
        """Known values of one metric of an entity, which may have been absent in between."""
        rows, interval = self._series(entity, metric), self._ring.head.interval
        return [
            Recent(ticks.tick_of(wall, interval), wall, finite(raw), finite(mean), code)
            for wall, raw, mean, code in zip(rows.walls, rows.raw, rows.mean, rows.codes, strict=True)
            if math.isfinite(wall) and interval > 0.0
        ]

    def valid_values(self, entity: int, metric: str, first: int = 0, last: int | None = None) -> ValidValues:
        """Valid values of the steps from ``first`` to ``last`` (default: the newest)."""
        found = ValidValues([], [], [])
        rows = self._series(entity, metric)
        for step, raw, mean, code in zip(rows.steps, rows.raw, rows.mean, rows.codes, strict=True):
            if step >= first and (last is None or step <= last) and _is_valid(code):
                found.steps.append(step)
                found.raw.append(raw)
                found.smoothed.append(mean)
        return found

    def _series(self, entity: int, metric: str) -> _Series:
        ring = self._ring
        slots = np.flatnonzero(ring.slots["id"] == np.uint64(entity)).tolist()
        if metric not in ring.names or not slots or not entity:
            return _Series([], [], [], [], [])
        column, slot = ring.names.index(metric), slots[-1]
        first = int(ring.slots["first"][slot])
        rows = ring.rows[self._rows[ring.rows["step"][self._rows] >= first]]
        raw, outliers = rows["raw"][:, column], rows["outliers"][:, column]
        found = recent.codes_of(raw, outliers)[:, slot].tolist()
        seeds = {
            step: float(mean)
            for step, mean in zip(ring.seed_steps.tolist(), ring.seed_means[:, column, slot], strict=True)
            if step >= first
        }
        life = _Life(rows["step"].tolist(), rows["monotonic"].tolist(), raw[:, slot].tolist(), found)
        means = _means(life, seeds, float(ring.taus[column]), first)
        whole = _Series(life.steps, rows["wall"].tolist(), life.raw, means, found)
        there = [at for at, code in enumerate(found) if code != GONE]
        return _Series._make([part[at] for at in there] for part in whole)


class _Life(NamedTuple):
    """All rows since an entity got its slot, oldest first."""

    steps: list[int]
    monotonic: list[float]
    raw: list[float]
    codes: list[int]


def _means(life: _Life, seeds: dict[int, float], tau: float, first: int) -> list[float]:
    """Moving average after each row; NaN if it is unknown, or before the first valid value."""
    found = [math.nan] * len(life.steps)
    mean, last, known = math.nan, math.nan, False
    for at, (step, monotonic, raw) in enumerate(zip(life.steps, life.monotonic, life.raw, strict=True)):
        code = life.codes[at]
        if code == GONE or step == first:  # a new or returning entity begins with its first valid value
            mean, last, known = math.nan, math.nan, True
        used = _is_valid(code)
        if step in seeds:
            mean, known = seeds[step], True
        elif used and known:
            alpha = _alpha(monotonic - last, tau)
            mean = raw if math.isnan(mean) else float(np.float32(mean + alpha * (raw - mean)))
        last = monotonic if used else last
        if known:
            found[at] = mean
    return _backwards(life, found, tau)


def _backwards(life: _Life, means: list[float], tau: float) -> list[float]:
    """Fill in the rows before the oldest known average."""
    at = next((at for at, mean in enumerate(means) if not math.isnan(mean)), 0)
    mean, magnified = means[at] if means else math.nan, 1.0
    while at > 0 and life.codes[at - 1] != GONE:
        if _is_valid(life.codes[at]):
            before = next((b for b in range(at - 1, -1, -1) if _is_valid(life.codes[b])), None)
            alpha = _alpha(life.monotonic[at] - life.monotonic[before], tau) if before is not None else 1.0
            magnified /= max(1.0 - alpha, 1e-9)
            if magnified > _MOST_MAGNIFIED:
                break
            mean = (mean - alpha * life.raw[at]) / (1.0 - alpha)
        at -= 1
        means[at] = mean
    return means


def _is_valid(code: int) -> bool:
    return code & codes.CODE_MASK == codes.VALID


def _alpha(elapsed: float, tau: float) -> float:
    """Weight of a new value; 1 if the time since the last one is unknown or invalid."""
    usable = elapsed > 0.0 and tau > 0.0
    return -math.expm1(-elapsed / tau) if usable else 1.0


def recent_of(data: object) -> RecentTable | None:
    """Table of a ring of recent values; None if it is absent, damaged or empty."""
    if not isinstance(data, bytes):
        return None
    try:
        table = RecentTable(recent.decode(data))
    except FrameError:
        return None
    return table if len(table) else None
