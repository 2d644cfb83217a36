"""Usage of processes from /proc: CPU (schedstat), memory (PSS), full names."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from probes.loop.account import pss_bytes

_COMM_BYTES = 15


def cpu_seconds(pid: int) -> float | None:
    """CPU time of all threads (Documentation/scheduler/sched-stats.rst: the first figure of
    schedstat, nanoseconds); None if the process is gone."""
    total = None
    with contextlib.suppress(OSError, ValueError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            total = (total or 0.0) + int((task / "schedstat").read_text().split()[0]) * 1e-9
    return total


def whole_name(pid: str, name: str) -> str:
    """Name of a local process from its command line, if the kernel has truncated it (15 bytes, proc(5))."""
    if len(name.encode()) == _COMM_BYTES:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2]  # the second one: for a script
            names = [os.path.basename(word).decode(errors="replace") for word in words]
            return next((whole for whole in names if whole.startswith(name)), name)
    return name


def children(pid: int) -> list[int]:
    """Process ids of the children of a process."""
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


class Meter:
    """CPU used by one process and its children since the first look, including restarts.

    Look every second: usage between the last look and the death of an incarnation is not counted.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._now = 0.0
        self._own = 0.0
        self._children = 0.0
        self._last: dict[int, float] = {}
        self._pss = 0

    def look(self, pid: int) -> None:
        """Read the figures of the process with the current ``pid``."""
        first = not self._began
        self._now = time.monotonic()
        self._began = self._began or self._now
        self._own += self._grown(pid, first)
        self._children += sum(self._grown(child, first) for child in children(pid))
        self._pss = pss_bytes(pid) or self._pss

    @property
    def cpu_percent(self) -> float | None:
        """Percent of one core; None before two looks."""
        return self._percent(self._own)

    @property
    def children_cpu_percent(self) -> float | None:
        """Percent of one core, all children together; None as above."""
        return self._percent(self._children)

    @property
    def pss_bytes(self) -> int | None:
        """PSS at the last look; None before."""
        return self._pss or None

    def _grown(self, pid: int, first: bool) -> float:
        now = cpu_seconds(pid)
        if now is None:
            return 0.0
        before = self._last.get(pid, now if first else 0.0)
        self._last[pid] = now
        return max(0.0, now - before)

    def _percent(self, seconds: float) -> float | None:
        elapsed = self._now - self._began
        return round(100.0 * seconds / elapsed, 3) if elapsed > 0 else None
