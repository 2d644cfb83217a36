"""Parallel execution of independent runs on all cores, by forking."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from typing import Any, TypeVar

from experiments.processes.program import ENDING

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_shared: dict[str, Callable[[Any], Any]] = {}


def each(function: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """``function`` of every item, in their order; ``function`` may be a closure over large arrays, items are small."""
    jobs = min(os.cpu_count() or 1, len(items))
    if jobs < 2:
        return [function(item) for item in items]
    _shared["function"] = function
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # a pool that is half made cannot be ended
    try:
        with get_context("fork").Pool(jobs, initializer=_begin) as pool:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            return pool.map(_call, items, chunksize=1)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        _shared.clear()


def _begin() -> None:
    """A worker ends when the pool says so, and not by what ends the program."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _call(item: Any) -> Any:
    return _shared["function"](item)
