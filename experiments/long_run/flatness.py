"""Flatness of a series of memory figures (pure).

Two readings of "flat", both have to hold: the median of the last tenth of the run lies within
``TOLERANCE`` of the median of a window of the same length right after the settling time, and
the line fitted to everything after the settling time rises by no more than ``TOLERANCE`` over it.
Only growth fails: memory that was given back is no leak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

TOLERANCE = 0.02
SETTLING_SECONDS = 300.0
_LAST_PART = 0.1
_SETTLING_PART = 1 / 3  #: of a run too short for five minutes
_FEWEST = 3


class Flatness(NamedTuple):
    """``early`` and ``late`` medians in the unit of the series, ``growth`` late / early - 1,
    ``slope_per_hour`` the fitted line's rise in an hour relative to ``early``, ``fitted_growth``
    its rise over the judged part."""

    early: float
    late: float
    growth: float
    slope_per_hour: float
    fitted_growth: float

    @property
    def flat(self) -> bool:
        """Whether neither reading grows by more than the tolerance."""
        return self.is_within(TOLERANCE)

    def is_within(self, tolerance: float) -> bool:
        """Whether neither reading grows by more than this tolerance."""
        return self.growth <= tolerance and self.fitted_growth <= tolerance


def settling(seconds: float, most: float = SETTLING_SECONDS) -> float:
    """Seconds not judged at the beginning of a run of ``seconds``: ``most``, or a third of a short run."""
    return min(most, seconds * _SETTLING_PART)


def judge(
    times: Sequence[float], values: Sequence[float], seconds: float, most: float = SETTLING_SECONDS
) -> Flatness | None:
    """The flatness of one series of a run of ``seconds``; None with too few points."""
    at, found = np.asarray(times, float), np.asarray(values, float)
    begin = settling(seconds, most)
    judged = at >= begin
    early = judged & (at < begin + _LAST_PART * seconds)
    late = at >= (1.0 - _LAST_PART) * seconds
    if min(early.sum(), late.sum()) < _FEWEST or np.median(found[early]) <= 0:
        return None
    first, last = float(np.median(found[early])), float(np.median(found[late]))
    slope = float(np.polyfit(at[judged] - begin, found[judged], 1)[0]) / first
    span = float(at[judged][-1] - at[judged][0])
    return Flatness(first, last, last / first - 1.0, slope * 3600.0, slope * span)


def verdicts(
    times: Sequence[float],
    series: Mapping[str, Sequence[float]],
    seconds: float,
    most: float = SETTLING_SECONDS,
    tolerance: float = TOLERANCE,
) -> dict[str, dict[str, float | bool]]:
    """The flatness of every series as JSON; a series that is too short is left out."""
    found = {name: judge(times, values, seconds, most) for name, values in series.items()}
    return {
        name: {
            "early_bytes": round(flatness.early),
            "late_bytes": round(flatness.late),
            "growth": round(flatness.growth, 5),
            "slope_per_hour": round(flatness.slope_per_hour, 5),
            "fitted_growth": round(flatness.fitted_growth, 5),
            "flat": flatness.is_within(tolerance),
        }
        for name, flatness in found.items()
        if flatness is not None
    }
