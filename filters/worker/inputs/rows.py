"""Row mapping from a frame to the previous one (pure)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]

_FEW = 8


class Stayed(NamedTuple):
    """Rows that stayed, in ``runs``: places in the new rows and in the old ones, as numpy indexes, slices if
    contiguous; ``come``: places of the other new rows, ``gone``: of the other old ones."""

    runs: tuple[tuple[slice | Places, slice | Places], ...]
    come: Places
    gone: Places


@lru_cache(1)  # averages and decision inputs of a resource set call it in turn
def who_stayed(new: bytes, old: bytes) -> Stayed:
    """Rows of ``old`` that are also in ``new``; both are ids as in frames."""
    here, there = np.frombuffer(new, "<u8"), np.frombuffer(old, "<u8")
    fewer = min(here.size, there.size)
    same = here[:fewer] == there[:fewer]
    head = _leading(same)
    tail = _leading(here[::-1][: fewer - head] == there[::-1][: fewer - head])
    new_end, old_end = here.size - tail, there.size - tail
    if not _any_common(here[head:new_end], there[head:old_end]):  # almost always: changes are in one place
        ends = (slice(head), slice(head)), (slice(new_end, None), slice(old_end, None))
        return Stayed(ends, np.arange(head, new_end), np.arange(head, old_end))
    if here.size == there.size:
        others = np.flatnonzero(~same)
        if not _any_common(here[others], there[others]):  # some rows now belong to other entities
            places = np.flatnonzero(same)
            return Stayed(((places, places),), others, others)
    _, at, before = np.intersect1d(here, there, return_indices=True)
    return Stayed(((at, before),), _others(here.size, at), _others(there.size, before))


def _leading(same: npt.NDArray[np.bool_]) -> int:
    """Number of true values before the first false one."""
    return int(same.argmin()) if not same.all() else same.size


def _others(size: int, places: Places) -> Places:
    left = np.ones(size, bool)
    left[places] = False
    return np.flatnonzero(left)


def _any_common(some: Ids, others: Ids) -> bool:
    if min(some.size, others.size) <= _FEW:
        return bool((some[:, None] == others).any())
    return bool(np.isin(some, others).any())
