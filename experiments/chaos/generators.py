"""The generators of a chaos run, from the parent's side: started, killed, frozen, their clocks stepped."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

from acquisition.errors import ShardpulseError
from experiments.processes.control import Child, ChildFailed, python
from experiments.testbed import Host

_READY_SECONDS = 60.0
_ANSWER_SECONDS = 20.0


class GeneratorProcess:
    """One generator with its share of the hosts. ``ahead`` is what its machines' wall clock is wrong by;
    it stays so over kills. ``task`` as ``experiments.chaos.generator`` wants it, without ``ahead``."""

    def __init__(self, number: int, host: Host, task: dict[str, Any], log: Path) -> None:
        self.name = f"generator {number}"
        self.host = host
        self.ahead = 0.0
        self.away = True
        self._task = task
        self._log = log
        self._child: Child | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it where it left off; by a thread that lives as long as it shall. Raises ShardpulseError."""
        with self._lock:
            with self._log.open("ab") as log, self.host.inside():
                child = Child(self.name, python("experiments.chaos.generator"), stderr=log)
            child.send({**self._task, "ahead": self.ahead})
            answer = child.receive(_READY_SECONDS)
            if "failed" in answer:
                child.stop()
                raise ShardpulseError(f"{self.name}: {answer['failed']}")
            self._child, self.away = child, False

    def kill(self) -> None:
        """kill -9."""
        with self._lock:
            self.away = True
            if self._child is not None:
                self._signal(signal.SIGKILL)
                self._child.stop()

    def freeze(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def step_clock(self, seconds: float) -> None:
        """Step its wall clock, now or when it starts again."""
        with self._lock:
            self.ahead += seconds
            if not self.away and self._child is not None:
                self._child.send({"do": "step", "seconds": seconds})

    def send(self, what: str, **order: Any) -> None:
        """Give it an order that has no answer. Raises ChildFailed."""
        with self._lock:
            if self._child is None or self.away:
                raise ChildFailed(f"{self.name} is not running")
            self._child.send({"do": what, **order})

    def say_goodbye(self) -> None:
        """End it in order. Raises ChildFailed."""
        self.ask("goodbye")
        self.stop()

    def ask(self, what: str) -> dict[str, Any]:
        """Order ``finish``, ``report``, ``problems`` or ``goodbye`` and its answer. Raises ChildFailed."""
        with self._lock:
            if self._child is None or self.away:
                raise ChildFailed(f"{self.name} is not running")
            self._child.send({"do": what})
            return self._child.receive(_ANSWER_SECONDS)

    def problems(self) -> list[str]:
        """What keeps frames of its hosts from going out; nothing while it is not running."""
        try:
            found: list[str] = self.ask("problems")["problems"]
        except ChildFailed:
            return []
        return found

    def check(self) -> None:
        """Raises ChildFailed when it has ended although nobody killed it."""
        with self._lock:
            if not self.away and self._child is not None:
                self._child.check()

    def stop(self) -> None:
        """End it."""
        with self._lock:
            self.away = True
            if self._child is not None:
                self._signal(signal.SIGCONT)
                self._child.stop()

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None and self._child.alive:
            os.kill(self._child.pid, number)
