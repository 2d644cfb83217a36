"""Processes with reused pids: a probe meets pids of another identity.

    python -m experiments.long_run.reused_pids N DIRECTORY PERIOD

runs N processes as ``experiments.emulation.load_processes`` does. Every PERIOD seconds the oldest is killed and a new
one is started in its place, with its pid if the kernel allows it: the next pid is requested through
/proc/sys/kernel/ns_last_pid (needs root or CAP_CHECKPOINT_RESTORE, capabilities(7)). Talks JSON lines: prints
``{"pids"}``; ``{"do": "stop"}`` is answered with ``{"replaced", "same_pid"}``.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path

from experiments.emulation.load_processes import fork, uninterrupted
from experiments.processes.control import Orders, say

_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
_ATTEMPTS = 20


def main(arguments: list[str]) -> int:
    """Replace processes until stopped or until standard input ends."""
    count, directory, period = int(arguments[0]), arguments[1], float(arguments[2])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    orders = Orders()
    pids: list[int] = []
    try:
        for number in range(count):
            with uninterrupted():
                pids.append(fork(number, count, directory))
        say({"pids": pids})
        say(_replace_until_told(orders, pids, directory, period))
    except (KeyboardInterrupt, SystemExit):
        pass
    finally:
        with uninterrupted():
            for pid in pids:
                _end(pid)
    return 0


def _replace_until_told(orders: Orders, pids: list[int], directory: str, period: float) -> dict[str, int]:
    replaced = same = 0
    due = time.monotonic() + period
    while True:
        if select.select([orders.fileno()], [], [], max(0.0, due - time.monotonic()))[0]:
            if any(order["do"] == "stop" for order in orders.read()):
                return {"replaced": replaced, "same_pid": same}
            continue
        due += period
        number = replaced % len(pids)
        old = pids[number]
        with uninterrupted():
            _end(old)
            pids[number] = _fork_as(old, number, len(pids), directory)
        replaced += 1
        same += pids[number] == old


def _fork_as(pid: int, number: int, count: int, directory: str) -> int:
    """A new process, with this pid if possible; on a busy machine another process may get it first."""
    new = 0
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(OSError):  # not allowed: then any pid
            _LAST_PID.write_text(str(pid - 1))
        new = fork(number, count, directory)
        if new == pid or _exists(pid):
            return new
        _end(new)
    return fork(number, count, directory)


def _end(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _exists(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
