"""Merging of rollups: late samples, and minutes into coarser levels (pure)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from filters.archive.minutes.sketch import Sketch, added
from filters.archive.minutes.values import Floats, Ids, MinuteMatrix, Statistic

_S = Statistic


def combine(stack: npt.NDArray[np.floating]) -> Floats:
    """One rollup of several consecutive ones: parts x statistics x … -> statistics x ….

    Counts are added; mean and deviation as in Chan, Golub and LeVeque (1979); ``last`` is that of the last part that
    has one. Percentiles cannot be merged, so they are omitted (see ``coarser``).
    """
    parts = stack.astype(np.float64)
    valid = np.nan_to_num(parts[:, _S.VALID])
    total = valid.sum(0)
    some = np.maximum(total, 1)
    means, deviations = np.nan_to_num(parts[:, _S.MEAN]), np.nan_to_num(parts[:, _S.DEVIATION])
    mean = (valid * means).sum(0) / some
    squares = (valid * (deviations**2 + (means - mean) ** 2)).sum(0)
    made = np.full(parts.shape[1:], np.nan, np.float32)
    counted = ~np.isnan(parts[:, _S.COUNT]).all(0)
    made[_S.COUNT] = np.where(counted, np.nan_to_num(parts[:, _S.COUNT]).sum(0), np.nan)
    made[_S.VALID] = np.where(counted, total, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a whole column may be NaN
        made[_S.LOW], made[_S.HIGH] = np.nanmin(parts[:, _S.LOW], 0), np.nanmax(parts[:, _S.HIGH], 0)
    made[_S.MEAN] = np.where(total > 0, mean, np.nan)
    made[_S.DEVIATION] = np.where(total > 0, np.sqrt(squares / some), np.nan)
    for part in parts[:, _S.LAST]:
        made[_S.LAST] = np.where(np.isnan(part), made[_S.LAST], part)
    return made


def merge(known: MinuteMatrix, more: MinuteMatrix) -> MinuteMatrix:
    """A matrix merged with a later one; entities in only one of them are kept. ``last`` is from the newer tick,
    unchanged if both have the same; the percentile is unchanged unless both have sketches."""
    ids = np.union1d(known.ids, more.ids)
    parts = _side_by_side((known, more), ids)
    values = combine(parts if known.tick < more.tick else parts[::-1])
    first, later = parts[:, Statistic.P95]
    values[Statistic.P95] = np.where(np.isnan(first), later, first)
    sketch = _sketched((known, more), values, ids) if known.sketch and more.sketch else known.sketch or more.sketch
    tick, late = max(known.tick, more.tick), known.late + more.late
    return MinuteMatrix(known.series, known.minute, tick, ids, values, late, known.passed_on, sketch)


def coarser(minutes: Iterable[MinuteMatrix], level: int) -> Iterator[MinuteMatrix]:
    """Merge minutes of one series into matrices of a longer level, with percentiles from their sketches."""
    in_order = sorted(minutes, key=lambda one: one.minute)
    for began, group in groupby(in_order, lambda one: one.minute - one.minute % level):
        parts = tuple(group)
        ids = np.unique(np.concatenate([one.ids for one in parts]))
        values = combine(_side_by_side(parts, ids))
        sketch, late = _sketched(parts, values, ids), sum(one.late for one in parts)
        yield MinuteMatrix(parts[0].series, began, parts[-1].minute, ids, values, late, sketch=sketch)


def _side_by_side(parts: Sequence[MinuteMatrix], ids: Ids) -> Floats:
    """Parts x statistics x ``ids`` x metrics."""
    stack = np.full((len(parts), len(Statistic), len(ids), parts[0].values.shape[2]), np.nan, np.float32)
    for made, one in zip(stack, parts, strict=True):
        made[:, np.searchsorted(ids, one.ids)] = one.values
    return stack


def _sketched(parts: Sequence[MinuteMatrix], values: Floats, ids: Ids) -> bytes | None:
    """Sketch of all parts; its percentiles are written to ``values``."""
    sketch = added(Sketch.decode(one.sketch) for one in parts if one.sketch)
    if sketch is None:
        return None
    found = sketch.percentiles(ids, values.shape[2])
    values[Statistic.P95] = np.where(np.isnan(found), values[Statistic.P95], found)
    return sketch.encode()
