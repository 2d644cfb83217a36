"""Shift detection: whether a series got worse than its own past (pure).

A series holds the figures of one metric of one entity, one per run of a benchmark, or per day. The newest ones
are compared with up to BASELINE before them, for several lengths of the newest part, since the time of a change is
unknown. If all values are above 0 their logarithms are used, since jitter is proportional to the level. Baseline:
mean and deviation of its values, clipped at three robust deviations (median, MAD) from the median, so that outliers
in it hide nothing. The newest part: its mean deviation from the baseline in units of that
deviation, each clipped at CLIPPED, so that one or two runs, however bad, are not a change. Its Student's t,
as the normal score of the same probability (Wallace 1959), must exceed SCORE. In addition both the newest part and
its last three runs must differ by the required change, so that a change that is over does not count.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

#: Numbers of runs of the newest part that are tried.
LENGTHS = (3, 4, 5, 7, 10, 15, 20, 30, 50)
BASELINE = 100  #: maximum of runs in the baseline
LEAST = 15  #: minimum of them
LONGEST = BASELINE + LENGTHS[-1]  #: runs that are examined
#: 18 series with only jitter, of 3%, exceed it about once in 20,000 runs (16 of 300,000 simulated ones).
SCORE = 4.75
CLIPPED = 3.5
_LAST = 3  #: runs
_MOST = 1000.0  #: maximum of a reported change: the usual level may be 0
_ROBUST, _OUTLYING = 1.4826, 3.0  #: MAD to deviation of a normal distribution; deviations
_FLOOR = 0.002  #: of the baseline: minimum of the deviation


class Shift(NamedTuple):
    """A level that got worse with the last ``runs`` runs: from ``baseline`` with its ``deviation``, over ``learned``
    runs, to ``level``; ``chance``: probability of the same by jitter alone."""

    runs: int
    baseline: float
    deviation: float
    learned: int
    level: float
    chance: float

    @property
    def change(self) -> float:
        """Change as a ratio of the baseline, 1000 at most."""
        apart = self.level - self.baseline
        return math.copysign(min(_MOST, abs(apart / self.baseline) if self.baseline else _MOST), apart)


def shifts(series: Values, change: float) -> list[Shift | None]:
    """Shifts for the worse of each of (series, runs) values, all finite, the newest last: by ``change`` of the baseline
    or more, upwards if it is positive."""
    found: list[Shift | None] = [None] * len(series)
    best = np.full(len(series), SCORE)
    sign = math.copysign(1.0, change)
    positive: npt.NDArray[np.bool_] = np.min(series, axis=1) > 0
    scaled = np.where(positive[:, None], np.log(np.where(positive[:, None], series, 1.0)), series)
    for runs in LENGTHS:
        past, newest = scaled[:, -runs - BASELINE : -runs], scaled[:, -runs:]
        if past.shape[1] < LEAST:
            break
        middle, deviation = _learned(past, positive)
        score = _score(sign * (newest - middle[:, None]) / deviation[:, None], past.shape[1])
        baseline, level = np.where(positive, np.exp(middle), middle), np.median(series[:, -runs:], 1)
        mildest = np.minimum(sign * level, sign * np.median(series[:, -_LAST:], 1))
        for row in np.flatnonzero((score > best) & (mildest - sign * baseline >= abs(change * baseline))):
            best[row] = score[row]
            chance = len(LENGTHS) * math.erfc(score[row] / math.sqrt(2.0)) / 2.0
            spread = deviation[row] * (baseline[row] if positive[row] else 1.0)
            found[row] = Shift(runs, float(baseline[row]), float(spread), past.shape[1], float(level[row]), chance)
    return found


def _learned(past: Values, positive: npt.NDArray[np.bool_]) -> tuple[Values, Values]:
    """Mean and deviation of each row; ``positive`` rows are logarithms."""
    middle = np.median(past, 1, keepdims=True)
    floor = np.where(positive[:, None], _FLOOR, np.maximum(_FLOOR * np.abs(middle), np.finfo(np.float32).tiny))
    reach = _OUTLYING * np.maximum(_ROBUST * np.median(np.abs(past - middle), 1, keepdims=True), floor)
    kept = np.clip(past, middle - reach, middle + reach)
    return kept.mean(1), np.maximum(kept.std(1, ddof=1), floor[:, 0])


def _score(apart: Values, learned: int) -> Values:
    """Normal score of the mean of each row of deviations, against a baseline of ``learned`` runs."""
    t = np.clip(apart, -CLIPPED, CLIPPED).mean(1) / math.sqrt(1.0 / apart.shape[1] + 1.0 / learned)
    freedom = learned - 1
    normal = np.sqrt(freedom * np.log1p(t * t / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    signed: Values = np.copysign(normal, t)
    return signed
