"""A service of a chaos run: a program of ``shardpulse`` as it is, on a host of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.testbed import Host

_ROOT = Path(__file__).resolve().parents[2]


class Service:
    """One filter worker, archiver or query service; ``away`` between ``kill`` and ``start``. Its output is appended to
    ``log``."""

    def __init__(self, name: str, host: Host, arguments: Sequence[str], log: Path, module: str = "acquisition") -> None:
        self.name = name
        self.host = host
        self.away = True
        self._command = [sys.executable, "-m", module, *arguments]
        self._log = log
        self._process: subprocess.Popen[Any] | None = None

    def start(self) -> None:
        """Start it; by a thread that lives as long as it shall."""
        with self._log.open("ab") as log:
            log.write(b"-- started\n")
            log.flush()
            self._process = self.host.popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=str(_ROOT)
            )
        self.away = False

    def kill(self) -> None:
        """kill -9."""
        self.away = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._send(signal.SIGCONT)

    @property
    def code(self) -> int | None:
        """Its exit code once it has ended."""
        return None if self._process is None else self._process.poll()

    def ended(self) -> int | None:
        """Its exit code when it has ended although nobody killed it."""
        return None if self.away or self._process is None else self._process.poll()

    def stop(self, patience: float = 3.0) -> bool:
        """End it, in order if it can within so many seconds; answers whether it did not have to be killed."""
        self.away = True
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self.kill()
                return False
        return True

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, number)
