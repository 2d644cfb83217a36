"""Derived metrics, computed from columns of one frame before smoothing.

They are those of acquisition.model.derived.

A derived sample is valid if all of its parts are; otherwise its code is that of the first part that is not. The metric
defines the treatment of an extra part that is MISSING, or not a column of the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes as validity
from acquisition.model.derived import Derived
from acquisition.wire.records.inputs import Floats
from filters.kernels import mean, trend, variance
from filters.kernels.numpy_step import LARGEST, update, weights

Codes = npt.NDArray[np.uint8]
_KERNELS = (mean.KERNEL, variance.KERNEL, trend.KERNEL)  #: for the fields of ``Averages`` before ``age``


class Averages(NamedTuple):
    """Smoothed state of derived columns, float32 (D, R) each; NaN before the first valid sample.

    ``age``: seconds from the last valid sample to this tick.
    """

    mean: Floats
    variance: Floats
    trend: Floats
    age: Floats


def derive(how: Derived, values: Sequence[Floats], codes: Sequence[Codes]) -> tuple[Floats, Codes]:
    """Derived samples and their codes, (R,) each, from those of the parts and of the extra ones; RANGE
    if the result cannot be smoothed."""
    values, codes = list(values), list(codes)
    for place in range(len(how.parts), len(values)):
        missing = (codes[place] & validity.CODE_MASK) == validity.MISSING
        values[place] = np.where(missing, np.float32(how.absent), values[place])
        codes[place] = np.where(missing, np.uint8(validity.VALID), codes[place])
    with np.errstate(all="ignore"):
        result = np.asarray(how.formula(np.maximum, *values), np.float32)
    found = np.zeros(result.shape, np.uint8)
    for code in codes:
        found = np.where((found & validity.CODE_MASK) == validity.VALID, found & validity.OUTLIER_FLAG | code, found)
    unusable = (found & validity.CODE_MASK) != validity.VALID
    found[unusable] &= validity.CODE_MASK
    found[~unusable & ~(np.abs(result) <= LARGEST)] = validity.RANGE
    return result, found


def smooth(old: Averages, x: Floats, dt: npt.NDArray[np.float64], tau: npt.NDArray[np.float64]) -> Averages:
    """One step of the kernels mean, variance and trend.

    ``x`` (D, R), NaN if not valid; ``dt`` (R,): seconds since the previous tick; ``tau`` (D, 1).
    """
    before = np.array(old[: len(_KERNELS)])
    after = np.empty_like(before)
    with np.errstate(all="ignore"):
        elapsed = old.age + dt.astype(np.float32)
        update(_KERNELS, x, elapsed, weights(elapsed, tau), before, after)
    used = ~np.isnan(x)
    first = used & np.isnan(old.mean)
    for kernel, plane in zip(_KERNELS, after, strict=True):
        plane[first] = kernel.prime(x[first])
    after[:, ~used] = before[:, ~used]
    return Averages._make((*after, np.where(used, np.float32(0.0), elapsed)))
