"""Order statistics of many windows at once: median, quartiles, MAD (pure).

Windows are rows of a float32 array (S, n). Sorting them completely is cheap: numpy sorts 30 float32 in about 45 ns
with vector instructions; one partition at the required ranks takes 540 ns (docs/decisions/0019). The native step
keeps windows sorted instead, and finds the median absolute deviation without sorting (``filters/worker/step/order.h``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.wire.records.inputs import Floats

Counts = npt.NDArray[np.intp]

#: Placeholder in a window for a sample that is not valid: sorts after all valid ones.
ABSENT = np.float32(np.inf)


class OrderStatistics(NamedTuple):
    """float32 (S,) each; NaN without valid samples."""

    median: Floats
    mad: Floats
    q1: Floats
    q3: Floats


def order_statistics(windows: Floats, valid: Counts) -> OrderStatistics:
    """Statistics of ``windows`` (S, n), with ``valid`` (S,) numbers per row, and ABSENT for the others.

    Sorts ``windows`` in place.
    """
    windows.sort(axis=1)
    with np.errstate(invalid="ignore"):
        q1, median, q3 = _quantiles(windows, valid, 0.25, 0.5, 0.75).T
        mad = _median_deviation(windows, median, valid)
    if not valid.all():
        nothing = valid == 0
        q1, median, q3 = (np.where(nothing, np.float32(np.nan), figure) for figure in (q1, median, q3))
        mad[nothing] = np.nan
    return OrderStatistics(median, mad, q1, q3)


class _Positions(NamedTuple):
    """By number of valid samples 0 to n, (n + 1, quantiles): the ranks below and above each quantile, and its relative
    position between them."""

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


def _quantiles(rows: Floats, valid: Counts, *shares: float) -> Floats:
    """Quantiles (S, shares) of sorted rows."""
    size, n = rows.shape
    at, flat = _positions(n, *shares), rows.reshape(-1)
    first = np.arange(0, size * n, n)[:, None]
    low = flat.take(at.below.take(valid, axis=0) + first)
    high = flat.take(at.above.take(valid, axis=0) + first)
    found: Floats = low + at.part.take(valid, axis=0) * (high - low)
    return found


def _median_deviation(rows: Floats, median: Floats, valid: Counts) -> Floats:
    """Median (S,) of |x - median| over the valid samples."""
    deviations = np.abs(rows - median[:, None])
    deviations[np.isnan(deviations)] = ABSENT
    deviations.sort(axis=1)
    found: Floats = _quantiles(deviations, valid, 0.5)[:, 0]
    return found
