"""Which rows of a frame are those of the one before it (pure)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]


def who_stayed(new: Ids, old: Ids) -> tuple[Places, Places]:
    """Where in ``new`` those are who were in ``old`` as well, and where they were there."""
    if new.size == old.size:
        same = new == old
        others = ~same
        if not np.isin(new[others], old[others]).any():  # as nearly always: some rows are somebody else's now
            places = np.flatnonzero(same)
            return places, places
    _, here, there = np.intersect1d(new, old, return_indices=True)
    return here, there
