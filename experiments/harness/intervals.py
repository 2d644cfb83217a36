"""Confidence intervals of means of few repeats."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

#: Two-sided 95% quantiles of Student's t by degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)


class Interval(NamedTuple):
    """The mean of some ratios and the ends of its 95% interval."""

    mean: float
    low: float
    high: float


def interval(ratios: Sequence[float]) -> Interval:
    """The interval for two ratios or more; above 15 it uses the quantile of 15, which makes it a little wider."""
    mean = statistics.fmean(ratios)
    half = _T[min(len(ratios) - 1, len(_T)) - 1] * statistics.stdev(ratios) / len(ratios) ** 0.5
    return Interval(round(mean, 4), round(mean - half, 4), round(mean + half, 4))
