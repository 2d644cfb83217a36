"""Order statistics of many windows at once: median, quartiles, median absolute deviation (pure).

Windows are rows of a float32 array (S, n). Sorting them whole is cheap (numpy sorts 30 float32 in some 45 ns with
vector instructions; one partition at the ranks that are needed takes 540 ns); the median absolute deviation needs no
second sorting, see ``_nearest`` (docs/decisions/0019).
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
    """The statistics of ``windows`` (S, n), whose rows hold ``valid`` (S,) numbers, and ABSENT for the others.

    Sorts ``windows`` in place.
    """
    windows.sort(axis=1)
    with np.errstate(invalid="ignore"):
        q1, median, q3 = _quartiles(windows, valid).T
        mad = _median_deviation(windows, median, valid)
    if not valid.all():
        nothing = valid == 0
        q1, median, q3 = (np.where(nothing, np.float32(np.nan), figure) for figure in (q1, median, q3))
        mad[nothing] = np.nan
    return OrderStatistics(median, mad, q1, q3)


class _Positions(NamedTuple):
    """By number of valid samples 0 to n, (n + 1, quantiles): the ranks below and above each quantile, and how far
    between them it lies."""

    below: Counts
    above: Counts
    part: Floats


@lru_cache(64)
def _positions(n: int, *quantiles: float) -> _Positions:
    """Linear interpolation between order statistics (numpy's default, type 7 of Hyndman and Fan, 1996)."""
    most = np.maximum(0, np.arange(n + 1) - 1)[:, None]
    at = most * np.array(quantiles)
    below = np.floor(at).astype(np.intp)
    return _Positions(below, np.minimum(below + 1, most), (at - below).astype(np.float32))


def _quartiles(rows: Floats, valid: Counts) -> Floats:
    """The quartiles (S, 3) of sorted rows."""
    size, n = rows.shape
    at, flat = _positions(n, 0.25, 0.5, 0.75), rows.reshape(-1)
    first = np.arange(0, size * n, n)[:, None]
    low = flat.take(at.below.take(valid, axis=0) + first)
    high = flat.take(at.above.take(valid, axis=0) + first)
    found: Floats = low + at.part.take(valid, axis=0) * (high - low)
    return found


def _median_deviation(rows: Floats, median: Floats, valid: Counts) -> Floats:
    """The median of |x - median| over the valid samples of sorted rows."""
    n, size = rows.shape[1], len(valid)
    ranks, below, above, part = _median_ranks(n, tuple(np.flatnonzero(np.bincount(valid)).tolist()))
    if len(ranks) > _MOST_RANKS:
        deviations = np.abs(rows - median[:, None])
        deviations[np.isnan(deviations)] = ABSENT
        deviations.sort(axis=1)
        distances = deviations.T[ranks]
    else:
        distances = _nearest(np.ascontiguousarray(rows.T), np.ascontiguousarray(median), ranks)
    flat, column = distances.reshape(-1), np.arange(size)
    least = flat.take(below.take(valid) * size + column)
    most = flat.take(above.take(valid) * size + column)
    found: Floats = least + part.take(valid) * (most - least)
    return found


class _MedianRanks(NamedTuple):
    """The ranks that medians need, and by number of valid samples: places among them, and how far between."""

    ranks: list[int]
    below: Counts
    above: Counts
    part: Floats


@lru_cache(1024)
def _median_ranks(n: int, counts: tuple[int, ...]) -> _MedianRanks:
    """For windows of ``n`` places that hold so many valid samples each."""
    at = _positions(n, 0.5)
    low, high = at.below[:, 0], at.above[:, 0]
    ranks = sorted({int(each[count]) for each in (low, high) for count in counts})
    place = np.zeros(n + 1, np.intp)
    place[ranks] = np.arange(len(ranks))
    return _MedianRanks(ranks, place[low], place[high], at.part[:, 0])


def _nearest(columns: Floats, center: Floats, ranks: list[int]) -> Floats:
    """(ranks, S): the values of these ranks (from 0) among |x - center| in sorted ``columns`` (n, S).

    The rank + 1 values that are nearest to the centre lie next to each other, so that the last of them is the least,
    over all runs of so many, of the larger of the distances of their two ends.
    """
    n, least = len(columns), ranks[0]
    below, above = center - columns[: n - least], columns[least:] - center
    found = np.empty((len(ranks), columns.shape[1]), np.float32)
    for place, rank in enumerate(ranks):
        np.maximum(below[: n - rank], above[rank - least :]).min(axis=0, out=found[place])
    return found
