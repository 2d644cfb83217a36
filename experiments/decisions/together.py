"""Parallel execution of independent runs on all cores, by forking."""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, TypeVar

from experiments.processes.program import ENDING

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_shared: dict[str, Callable[[Any], Any]] = {}


def each(function: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Results of ``function`` for all items, in order. It may be a closure over large arrays; items are small."""
    jobs = min(os.cpu_count() or 1, len(items))
    if jobs < 2:
        return [function(item) for item in items]
    _shared["function"] = function
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until all workers are known
    try:
        with ProcessPoolExecutor(jobs, get_context("fork"), _begin) as pool:
            answers = [pool.submit(_call, item) for item in items]
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
                return [answer.result() for answer in answers]
            except BaseException:
                for worker in active_children():
                    worker.kill()  # otherwise the pool waits for their current runs
                raise
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        _shared.clear()


def kept(directory: Path | None, key: object, run: Callable[[], Answer]) -> Answer:
    """The result of a run, or the one that an earlier run with the same key saved in ``directory``."""
    if directory is None:
        return run()
    path = directory / hashlib.sha256(repr(key).encode()).hexdigest()[:24]
    if path.exists():
        known: Answer = pickle.loads(path.read_bytes())
        return known
    found = run()
    directory.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(pickle.dumps(found))
    part.rename(path)  # complete or absent
    return found


def _begin() -> None:
    """Start a worker: only the pool ends it, not the signals to the program. It creates few cyclic objects."""
    gc.set_threshold(100_000)
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _call(item: Any) -> Any:
    return _shared["function"](item)
