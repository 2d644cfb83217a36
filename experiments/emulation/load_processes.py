"""Load processes: many nearly idle processes for a probe to watch.

``python -m experiments.emulation.load_processes N DIRECTORY`` forks N processes named NAME. Each wakes up ten
times a second for 0.2 ms of work and writes 4 kB once a second to a file in DIRECTORY. They
share their parent's memory. The parent prints their pids on one line; when it is stopped, or
its standard input is closed, it kills them. They die with it, too, if it is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

NAME = "shardload"
_WAKE_UPS = 10
_WORK_SECONDS = 0.0002
_BLOCK = bytes(4096)
_ENDING = (signal.SIGTERM, signal.SIGINT)
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Block SIGTERM and SIGINT: forking, and killing forked processes, is not interrupted half way."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def fork(number: int, count: int, directory: str) -> int:
    """Start one of ``count`` processes; its pid. Call it ``uninterrupted`` until the pid is stored: a signal
    between the two would orphan the child, or be handled by the child like by its parent."""
    parent = os.getpid()
    file = os.open(f"{directory}/load-{number}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    pid = os.fork()
    if not pid:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # not inherited: see acquisition.lifeline
        if os.getppid() != parent:  # it died before the call
            os._exit(1)
        for ending in _ENDING:
            signal.signal(ending, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        work(number, count, file)
    os.close(file)
    return pid


def work(number: int, count: int, file: int) -> None:
    """Work of one process, which writes to ``file``; ended only by a signal."""
    with open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write(NAME)
    turn = 0
    at = time.monotonic() + number / count  # spread over a second
    while True:
        end = time.perf_counter() + _WORK_SECONDS
        while time.perf_counter() < end:
            pass
        turn += 1
        if turn % _WAKE_UPS == 0:
            os.pwrite(file, _BLOCK, 0)
        at += 1 / _WAKE_UPS
        time.sleep(max(0.0, at - time.monotonic()))


def main(arguments: list[str]) -> int:
    """Fork, print the pids, wait for the end of standard input."""
    count, directory = int(arguments[0]), arguments[1]
    pids: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)  # it may have been started ``uninterrupted``
    try:
        for number in range(count):
            with uninterrupted():
                pids.append(fork(number, count, directory))
        print(*pids, flush=True)
        while os.read(0, 4096):
            pass
    except (KeyboardInterrupt, SystemExit):
        pass
    finally:
        with uninterrupted():
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
