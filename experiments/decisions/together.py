"""Independent pieces of a run on all cores: what they share is inherited by forking, only answers travel."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from typing import Any, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_shared: dict[str, Callable[[Any], Any]] = {}


def each(function: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """``function`` of every item, in their order; ``function`` may be a closure over large arrays, items are small."""
    jobs = min(os.cpu_count() or 1, len(items))
    if jobs < 2:
        return [function(item) for item in items]
    _shared["function"] = function
    try:
        with get_context("fork").Pool(jobs) as pool:
            return pool.map(_call, items, chunksize=1)
    finally:
        _shared.clear()


def _call(item: Any) -> Any:
    return _shared["function"](item)
