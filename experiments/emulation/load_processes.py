"""Processes that do a little, as the guests and services of a host do: what a probe has to watch.

``python -m experiments.emulation.load_processes N DIRECTORY`` forks N processes named NAME. Each wakes up ten
times a second for 0.2 ms of work and writes 4 kB once a second to a file in DIRECTORY. They
share their parent's memory. The parent prints their pids on one line; when it ends, or
its standard input is closed, it kills them.
"""

from __future__ import annotations

import os
import signal
import sys
import time

NAME = "shardload"
_WAKE_UPS = 10
_WORK_SECONDS = 0.0002
_BLOCK = bytes(4096)


def work(number: int, count: int, directory: str) -> None:
    """The life of one process; ends by a signal only."""
    with open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write(NAME)
    file = os.open(f"{directory}/load-{number}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
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
    """Fork, say who, wait for the end of standard input."""
    count, directory = int(arguments[0]), arguments[1]
    pids: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        for number in range(count):
            pid = os.fork()
            if not pid:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                work(number, count, directory)
            pids.append(pid)
        print(*pids, flush=True)
        while os.read(0, 4096):
            pass
    except (KeyboardInterrupt, SystemExit):
        pass
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
