"""Order statistics of many windows at once: median, quartiles, median absolute deviation (pure).

Windows are columns of a float32 array (n, S): what is done to all of them runs along contiguous memory.
Sorting them whole is cheap (numpy sorts 30 float32 in some 45 ns with vector instructions; one partition at the
ranks that are needed takes 540 ns); the median absolute deviation needs no second sorting, see
``_nearest`` (docs/decisions/0019).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.wire.inputs import Floats

Counts = npt.NDArray[np.intp]

#: What stands in a window for a sample that is not valid: it is sorted behind all that are.
ABSENT = np.float32(np.inf)
_MOST_RANKS = 10  #: more distinct ones than these: sorting the deviations is cheaper


class OrderStatistics(NamedTuple):
    """float32 (S,) each; NaN where no sample is valid."""

    median: Floats
    mad: Floats
    q1: Floats
    q3: Floats


def order_statistics(windows: Floats, valid: Counts) -> OrderStatistics:
    """The statistics of ``windows`` (n, S), whose columns hold ``valid`` (S,) numbers, and ABSENT for the others."""
    n = len(windows)
    rows = sort(windows)
    with np.errstate(invalid="ignore"):
        same = _same(valid)
        median, q1, q3 = (_quantile(rows, _positions(n, q), valid, same) for q in (0.5, 0.25, 0.75))
        mad = _median_deviation(rows, median, valid, same)
    if not valid.all():
        nothing = valid == 0
        for figure in (median, mad, q1, q3):
            figure[nothing] = np.nan
    return OrderStatistics(median, mad, q1, q3)


def sort(windows: Floats) -> Floats:
    """Every column sorted. In rows and back: numpy would copy each column on its own."""
    rows = np.ascontiguousarray(windows.T)
    rows.sort(axis=1)
    found: Floats = np.ascontiguousarray(rows.T)
    return found


class _Positions(NamedTuple):
    """By number of valid samples 0 to n: the ranks below and above a quantile, and how far between them it lies."""

    below: Counts
    above: Counts
    part: Floats


@lru_cache(64)
def _positions(n: int, q: float) -> _Positions:
    """Linear interpolation between order statistics (numpy's default, type 7 of Hyndman and Fan, 1996)."""
    most = np.maximum(0, np.arange(n + 1) - 1)
    at = most * q
    below = np.floor(at).astype(np.intp)
    return _Positions(below, np.minimum(below + 1, most), (at - below).astype(np.float32))


def _same(valid: Counts) -> int | None:
    """The number of valid samples where all windows have the same."""
    return int(valid[0]) if valid.size and bool((valid == valid[0]).all()) else None


def _quantile(rows: Floats, at: _Positions, valid: Counts, same: int | None) -> Floats:
    if same is not None:
        low: Floats = rows[at.below[same]]
        alike: Floats = low + at.part[same] * (rows[at.above[same]] - low)
        return alike
    flat, size = rows.reshape(-1), rows.shape[1]
    column = np.arange(size)
    low = flat.take(at.below.take(valid) * size + column)
    high = flat.take(at.above.take(valid) * size + column)
    found: Floats = low + at.part.take(valid) * (high - low)
    return found


def _median_deviation(rows: Floats, median: Floats, valid: Counts, same: int | None) -> Floats:
    """The median of |x - median| over the valid samples of sorted columns."""
    at = _positions(len(rows), 0.5)
    ranks = sorted(
        {int(rank) for count in np.flatnonzero(np.bincount(valid)) for rank in (at.below[count], at.above[count])}
    )
    if len(ranks) > _MOST_RANKS:
        deviations = np.abs(rows - median)
        deviations[np.isnan(deviations)] = ABSENT
        return _quantile(sort(deviations), at, valid, same)
    return _quantile(_nearest(rows, median, ranks), at, valid, same)


def _nearest(rows: Floats, center: Floats, ranks: list[int]) -> Floats:
    """(n, S), of which the rows ``ranks`` hold the values of that rank (from 0) among |x - center| in sorted columns.

    The rank + 1 values that are nearest to the centre lie next to each other, so that the last of them is the least,
    over all runs of so many, of the larger of the distances of their two ends.
    """
    n, least = len(rows), ranks[0]
    below, above = center - rows[: n - least], rows[least:] - center
    found = np.empty_like(rows)
    for rank in ranks:
        np.maximum(below[: n - rank], above[rank - least :]).min(axis=0, out=found[rank])
    return found
