"""Service process of a chaos run: a shipped command on its own host."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from experiments.processes.control import Child, python
from experiments.testbed import Host


class Service:
    """One filter worker, archiver or query service; ``away`` between ``kill`` and ``start``. Its output is appended to
    ``log``, without its stdout if it is ``asked`` by messages."""

    asked = False

    def __init__(self, name: str, host: Host, arguments: Sequence[str], log: Path, module: str = "acquisition") -> None:
        self.name = name
        self.host = host
        self.away = True
        self._command = python(module, *arguments)
        self._log = log
        self._child: Child | None = None

    def start(self) -> None:
        """Start it, from a thread that outlives it. Raises ShardpulseError."""
        with self._log.open("ab") as log, self.host.inside():
            log.write(b"-- started\n")
            log.flush()
            self._child = Child(self.name, self._command, stderr=log, stdout=None if self.asked else log)
        self.away = False

    def kill(self) -> None:
        """kill -9."""
        self.away = True
        self._send(signal.SIGKILL)
        if self._child is not None:
            self._child.stop()

    def freeze(self) -> None:
        """SIGSTOP."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._send(signal.SIGCONT)

    @property
    def code(self) -> int | None:
        """Its exit code once it has ended."""
        return None if self._child is None else self._child.code

    def ended(self) -> int | None:
        """Its exit code if it has ended without being killed."""
        return None if self.away else self.code

    def stop(self, patience: float = 3.0) -> bool:
        """End it, in order if possible within ``patience`` seconds; True if it did not have to be killed."""
        self.away = True
        if self._child is None:
            return True
        ended = self.code is not None
        return self._child.stop(patience) != -signal.SIGKILL or ended

    def _send(self, number: signal.Signals) -> None:
        if self._child is not None and self.code is None:
            os.kill(self._child.pid, number)
