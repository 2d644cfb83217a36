"""Which rows of a frame are those of the one before it (pure)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]

_FEW = 8


@lru_cache(1)  # averages and decision inputs of a resource set ask one after the other
def who_stayed(new: bytes, old: bytes) -> tuple[Places, Places]:
    """Where in ``new`` those are who were in ``old`` as well, and where they were there; both are ids as frames carry
    them."""
    here, there = np.frombuffer(new, "<u8"), np.frombuffer(old, "<u8")
    if here.size == there.size:
        same = here == there
        others = np.flatnonzero(~same)
        if not _any_common(here[others], there[others]):  # as nearly always: some rows are somebody else's now
            places = np.flatnonzero(same)
            return places, places
    _, at, before = np.intersect1d(here, there, return_indices=True)
    return at, before


def _any_common(some: Ids, others: Ids) -> bool:
    if some.size <= _FEW:
        return bool((some[:, None] == others).any())
    return bool(np.isin(some, others).any())
