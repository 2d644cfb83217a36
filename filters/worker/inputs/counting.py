"""What is counted from tick to tick: valid samples, those above a threshold, time above it, CUSUM (pure)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.wire.inputs import Floats
from filters.worker.inputs.order import ABSENT

Counts = npt.NDArray[np.int16]


class Tick(NamedTuple):
    """New samples of R rows in C columns, float32.

    ``x`` (C, R), NaN where not ``usable`` (bool); ``leaving`` (C, R), those that the windows lose for them, and
    ``uncounted`` (C, R), those that k of n loses, ABSENT where not valid; ``baseline`` (C, R), the moving average
    before ``x``, NaN where there was none; ``seconds`` (R,) that each sample stands for; ``thresholds`` and ``slacks``
    (C, 1).
    """

    x: Floats
    usable: npt.NDArray[np.bool_]
    leaving: Floats
    uncounted: Floats
    baseline: Floats
    seconds: Floats
    thresholds: Floats
    slacks: Floats


class Counted(NamedTuple):
    """(C, R): CUSUM statistic and seconds above the threshold, float32; valid samples in the window, valid samples in
    the last ticks that are counted, and those of them that are above, integers."""

    cusum: Floats
    time_above: Floats
    valid: Counts
    counted: Counts
    above: Counts


def count(old: Counted, tick: Tick) -> Counted:
    """The counts after a tick. A sample that is not valid leaves CUSUM and time above as they were: it is no
    evidence for either side."""
    x, usable = tick.x, tick.usable
    exceeds = x > tick.thresholds
    dropped = tick.uncounted < ABSENT
    with np.errstate(invalid="ignore"):
        moved = np.fmax(old.cusum + (x - tick.baseline) - tick.slacks, np.float32(0.0))  # 0 without a baseline
    return Counted(
        np.where(usable, moved, old.cusum),
        (old.time_above + tick.seconds * exceeds) * (exceeds | ~usable),
        old.valid + usable - (tick.leaving < ABSENT),
        old.counted + usable - dropped,
        old.above + exceeds - (dropped & (tick.uncounted > tick.thresholds)),
    )
