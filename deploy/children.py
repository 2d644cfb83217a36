"""Child processes of the demo: restarted when they die, stopped in order.

They end with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import usage

from acquisition import lifeline, signals

_PR_SET_CHILD_SUBREAPER = 36
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
_STABLE_SECONDS = 30.0  #: a child that ran for so long is restarted as fast as the first time
_LOG_BYTES = 1 << 16  #: printed bytes of a log after which it is emptied


def adopt_orphans() -> None:
    """Make this process the parent of orphans of its dead children (PR_SET_CHILD_SUBREAPER,
    prctl(2)): the tools of a probe killed with -9."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans(known: Collection[int] = ()) -> None:
    """Kill and reap all children of this process that are not ``known``."""
    for pid in set(usage.children(os.getpid())) - set(known):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


class Child:
    """One part of the product in its own process, with its output in a log file.

    ``command``: arguments of this Python. The process dies with the demo: the kernel sends SIGTERM
    when the demo is killed, so that the process can end its own children first.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path, say: Callable[[str], None]) -> None:
        self.name = name
        self._command = [sys.executable, *command]
        self._log = log
        self._say = say
        self._pause = _FIRST_PAUSE
        self._again = 0.0
        self._began = 0.0
        self._told = 0
        self.restarts = 0
        self._process = self._start()

    @property
    def pid(self) -> int:
        """Process id of the current incarnation."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def supervise(self) -> None:
        """Restart it when it has died, with growing pauses, and report that."""
        code = self._process.poll()
        if code is None:
            return
        now = time.monotonic()
        if not self._again:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            self._say(f"{self.name} {how}: starting it again")
            if now - self._began >= _STABLE_SECONDS:
                self._pause = _FIRST_PAUSE
            self._again = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        if now >= self._again:
            self._again = 0.0
            self.restarts += 1
            self._process = self._start()

    def new_lines(self) -> list[str]:
        """Lines written since the last call."""
        with contextlib.suppress(OSError), open(self._log, "rb+") as log:
            log.seek(self._told)
            text, newline, rest = log.read().rpartition(b"\n")
            self._told += len(text) + len(newline)
            if self._told >= _LOG_BYTES and not rest:  # opened for appending: it continues at the new end
                log.truncate(0)
                self._told = 0
            return text.decode(errors="replace").splitlines()
        return []

    def ask_to_stop(self) -> None:
        """Send SIGTERM, without waiting."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def stop(self, seconds: float) -> None:
        """Send SIGTERM, and SIGKILL if it has not ended after ``seconds``."""
        self.ask_to_stop()
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self._say(f"{self.name} does not stop: killing it")
            self._process.kill()
            self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        self._began = time.monotonic()
        with signals.deferred(), open(self._log, "ab") as log:
            return subprocess.Popen(
                lifeline.tied(self._command, signal.SIGTERM),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the demo handles Ctrl-C and stops its children in order
            )
