"""Newcomers: processes started since the last scan, without listing /proc.

Listing takes the kernel a microsecond per process, new or not. It hands out pids in turn, and /proc/loadavg names the
newest (proc(5)), so that those in between are all that can be new. Threads have pids of the same row. A pid that was
chosen by hand (CRIU) is found by the next listing only.
"""

from __future__ import annotations

import os

from probes.sampling.procfs import number_after, read_once

_COSTLIER = 3  #: a pid that nobody has any more takes so many times as long as a listed one


class Newcomers:
    """The pids that were handed out since the last ``look``."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._newest = self._before = 0
        self._in_turn = _is_own(proc)

    def look(self, known: int) -> list[int] | None:
        """Newcomers that are processes now. None when they are unknown, or when listing all, of whom about ``known``
        exist, is cheaper."""
        before = self._before = self._newest
        self._newest = self._read() if self._in_turn else 0
        count = self._newest - before
        if not before or not self._newest or not 0 <= count * _COSTLIER <= known:
            return None
        return [pid for pid in range(before + 1, self._newest + 1) if _is_process(f"{self._proc}/{pid}")]

    def handed_out(self, pid: int) -> bool:
        """Whether a pid was handed out between the two newest looks; it may have been another process' before."""
        if self._before <= self._newest:
            return 0 < self._before < pid <= self._newest
        return pid > self._before or pid <= self._newest  # they have gone round

    def _read(self) -> int:
        try:
            return int(read_once(f"{self._proc}/loadavg").rpartition(b" ")[2])
        except (OSError, ValueError):
            return 0


def _is_own(proc: str) -> bool:
    """Whether the pids of this /proc are those of this process' namespace, as /proc/loadavg always counts."""
    try:
        return os.readlink(f"{proc}/self") == str(os.getpid())
    except OSError:
        return False


def _is_process(base: str) -> bool:
    """Whether there is a process of that pid, and no mere thread."""
    return _leader(base) == int(base.rpartition("/")[2])


def is_thread(base: str) -> bool:
    """Whether the pid is that of a mere thread: the directory is there, though no list of processes has it."""
    return _leader(base) not in (None, int(base.rpartition("/")[2]))


def _leader(base: str) -> int | None:
    try:
        return number_after(read_once(f"{base}/status"), b"\nTgid:")
    except OSError:
        return None
