"""Newcomers: processes started since the last scan, without listing /proc.

Listing takes the kernel a microsecond per process, new or not. It assigns pids in turn, and /proc/loadavg names the
newest (proc(5)), so only those in between can be new. Threads have pids of the same sequence. A pid
chosen by hand (CRIU) is found only by the next listing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial

from probes.sampling.procfs import number_after, read_once

_COSTLIER = 2  #: cost of an assigned pid as a multiple of that of a listed one
_NO_PROCESS = (errno.ESRCH, errno.EINVAL, errno.ENOENT)  #: of pidfd_open(2): unused pid, or that of a mere thread


class Newcomers:
    """Pids assigned since the last ``look``."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._newest = self._before = 0
        self._in_turn = _is_own(proc)
        self._is_process: Callable[[int], bool] = _lives if proc == "/proc" else partial(_leads, proc)

    def look(self, known: int) -> list[int] | None:
        """Newcomers that are processes now. None if they are unknown, or if listing all, about ``known``,
        is cheaper."""
        before = self._before = self._newest
        self._newest = self._read() if self._in_turn else 0
        count = self._newest - before
        if not before or not self._newest or not 0 <= count * _COSTLIER <= known:
            return None
        return [pid for pid in range(before + 1, self._newest + 1) if self._is_process(pid)]

    def handed_out(self, pid: int) -> bool:
        """Whether a pid was assigned between the two newest looks; it may have been another process' before."""
        if self._before <= self._newest:
            return 0 < self._before < pid <= self._newest
        return pid > self._before or pid <= self._newest  # they have wrapped around

    def _read(self) -> int:
        try:
            return int(read_once(f"{self._proc}/loadavg").rpartition(b" ")[2])
        except (OSError, ValueError):
            return 0


def _is_own(proc: str) -> bool:
    """Whether the pids of this /proc are those of this process' namespace, which /proc/loadavg always counts."""
    try:
        return os.readlink(f"{proc}/self") == str(os.getpid())
    except OSError:
        return False


def _lives(pid: int) -> bool:
    """Whether this machine has a process of that pid, not a mere thread. Linux 5.3 reports it without files, which take
    ten times as long if the process has ended."""
    try:
        os.close(os.pidfd_open(pid))
    except (AttributeError, OSError) as error:
        return getattr(error, "errno", None) not in _NO_PROCESS and _leads("/proc", pid)
    return True


def _leads(proc: str, pid: int) -> bool:
    """The same from the files below ``proc``."""
    return _leader(f"{proc}/{pid}") == pid


def is_thread(base: str) -> bool:
    """Whether the pid is that of a mere thread: the directory exists, but is in no list of processes."""
    return _leader(base) not in (None, int(base.rpartition("/")[2]))


def _leader(base: str) -> int | None:
    try:
        return number_after(read_once(f"{base}/status"), b"\nTgid:")
    except OSError:
        return None
