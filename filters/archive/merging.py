"""Rollups put together: late samples into their minute, minutes into coarser levels. Pure."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from filters.archive.values import Floats, MinuteMatrix, Statistic

_S = Statistic


def combine(stack: npt.NDArray[np.floating]) -> Floats:
    """One rollup of several that follow each other: parts x statistics x … -> statistics x ….

    Counts add up; mean and deviation as in Chan, Golub and LeVeque (1979); ``last`` is that of the last part that has
    one. Percentiles cannot be put together, so there is none.
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
        warnings.simplefilter("ignore", RuntimeWarning)  # all of a column may be NaN
        made[_S.LOW], made[_S.HIGH] = np.nanmin(parts[:, _S.LOW], 0), np.nanmax(parts[:, _S.HIGH], 0)
    made[_S.MEAN] = np.where(total > 0, mean, np.nan)
    made[_S.DEVIATION] = np.where(total > 0, np.sqrt(squares / some), np.nan)
    for part in parts[:, _S.LAST]:
        made[_S.LAST] = np.where(np.isnan(part), made[_S.LAST], part)
    return made


def merge(known: MinuteMatrix, more: MinuteMatrix) -> MinuteMatrix:
    """A minute with what came late; entities that only one of them has are kept. The percentile stays."""
    ids = np.union1d(known.ids, more.ids)
    stack = np.full((2, len(Statistic), len(ids), known.values.shape[2]), np.nan, np.float32)
    in_order = (known, more) if known.tick <= more.tick else (more, known)
    for part, one in zip(stack, in_order, strict=True):
        part[:, np.searchsorted(ids, one.ids)] = one.values
    values = combine(stack)
    values[Statistic.P95, np.searchsorted(ids, known.ids)] = known.values[Statistic.P95]
    return MinuteMatrix(known.series, known.minute, in_order[1].tick, ids, values, known.late + more.late)
