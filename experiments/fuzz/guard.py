"""Guards of a fuzz worker: time per input, growth of memory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SAMPLE_SECONDS = 0.25
_SETTLED, _LAST = 0.2, 0.1  #: parts of the run: the unjudged beginning, and the end compared with the time after it
#: Growth that counts: allocators keep arenas of a megabyte.
_GROWTH, _SPARE_BYTES = 0.02, 2 << 20


class Hang(Exception):
    """An input took too long."""


@contextmanager
def bounded(cpu_seconds: float) -> Iterator[None]:
    """Raises Hang inside the block after ``cpu_seconds`` of this process (ITIMER_PROF): a busy machine is no
    hang. A hang inside one C call is detected by the parent, which expects progress."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise Hang(f"more than {cpu_seconds:g} s of CPU time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


class MemoryWatch:
    """RSS over the amount of work done; call ``look`` often."""

    def __init__(self, pid: int = 0) -> None:
        self._file = Path(f"/proc/{pid or 'self'}/statm")
        self._due = 0.0
        self.points: list[tuple[int, int]] = []  #: (inputs done, bytes)

    def look(self, done: int) -> None:
        """Note the memory now, a few times a second at most."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _SAMPLE_SECONDS
            self.points.append((done, int(self._file.read_text().split()[1]) * _PAGE))


def growth(points: list[tuple[int, int]], target: int) -> dict[str, Any]:
    """Memory over a run of ``target`` inputs: the median after its first fifth, of its last tenth, the
    slope of a straight line in bytes per million inputs, and whether that is flat."""
    judged = [(done, size) for done, size in points if done >= _SETTLED * target]
    early = [size for done, size in judged if done < (_SETTLED + _LAST) * target] or [size for _, size in judged[:1]]
    late = [size for done, size in judged if done >= (1.0 - _LAST) * target] or [size for _, size in judged[-1:]]
    if not judged:
        return {"early_bytes": 0, "late_bytes": 0, "slope_bytes_per_million": 0.0, "flat": True}
    first, last = median(early), median(late)
    return {
        "early_bytes": round(first),
        "late_bytes": round(last),
        "slope_bytes_per_million": round(_slope(judged) * 1e6),
        "flat": last - first <= first * _GROWTH + _SPARE_BYTES,
    }


def _slope(points: list[tuple[int, int]]) -> float:
    """Bytes per input by least squares."""
    mean_x = sum(done for done, _ in points) / len(points)
    mean_y = sum(size for _, size in points) / len(points)
    spread = sum((done - mean_x) ** 2 for done, _ in points)
    return sum((done - mean_x) * (size - mean_y) for done, size in points) / spread if spread else 0.0
