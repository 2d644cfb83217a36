"""Lowest and highest of the last valid samples: near to each other while a load stays where it is (pure).

A spike of a second or three begins and ends within samples, so that its first and last one show only a part of
it; four samples in a row that are high and alike are none (docs/decisions/0027).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from acquisition.wire.inputs import Floats


def push(lately: Floats, x: Floats, usable: npt.NDArray[np.bool_]) -> Floats:
    """The last valid samples after ``x`` (C, R), which counts where ``usable`` (C, R); ``lately`` (m, C, R), the newest
    first, NaN where there were fewer."""
    after = np.empty_like(lately)
    after[0] = x
    after[1:] = lately[:-1]
    if not usable.all():
        np.copyto(after, lately, where=~usable)
    return after


def extremes(lately: Floats, valid: npt.NDArray[np.int16]) -> tuple[Floats, Floats]:
    """Lowest and highest (C, R) of ``lately``; NaN where a window of ``valid`` (C, R) samples has not so many."""
    lowest, highest = lately.min(axis=0), lately.max(axis=0)
    few = valid < len(lately)
    if few.any():  # what lies before the window is not known to a worker that takes over
        lowest[few] = highest[few] = np.nan
    return lowest, highest
