"""Generator handles in the parent: start, kill, freeze, step clocks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from acquisition.errors import ShardpulseError
from experiments.chaos.service import Service
from experiments.processes.control import Child, ChildFailed
from experiments.testbed import Host

_READY_SECONDS = 60.0
_ANSWER_SECONDS = 20.0


class GeneratorProcess(Service):
    """One generator with its share of the hosts. ``ahead`` is the error of its machines' wall clock, which outlasts
    kills. ``task`` is as in ``experiments.chaos.generator``, without ``ahead``."""

    asked = True

    def __init__(self, number: int, host: Host, task: dict[str, Any], log: Path) -> None:
        super().__init__(f"generator {number}", host, (), log, "experiments.chaos.generator")
        self.ahead = 0.0
        self._task = task
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it where it left off, from a thread that outlives it. Raises ShardpulseError."""
        with self._lock:
            super().start()
            child = self._running()
            try:
                child.send({**self._task, "ahead": self.ahead})
                answer = child.receive(_READY_SECONDS)
                if "failed" in answer:
                    raise ShardpulseError(f"{self.name}: {answer['failed']}")
            except ShardpulseError:
                super().kill()
                raise

    def kill(self) -> None:
        """kill -9."""
        with self._lock:
            super().kill()

    def step_clock(self, seconds: float) -> None:
        """Step its wall clock, now or at its next start."""
        with self._lock:
            self.ahead += seconds
            if not self.away:
                self._running().send({"do": "step", "seconds": seconds})

    def send(self, what: str, **order: Any) -> None:
        """Send it an order without an answer. Raises ChildFailed."""
        with self._lock:
            self._running().send({"do": what, **order})

    def say_goodbye(self) -> None:
        """End it in order. Raises ChildFailed."""
        self.ask("goodbye")
        self.stop()

    def ask(self, what: str) -> dict[str, Any]:
        """Answer to an order ``finish``, ``report``, ``problems`` or ``goodbye``. Raises ChildFailed."""
        with self._lock:
            child = self._running()
            child.send({"do": what})
            return child.receive(_ANSWER_SECONDS)

    def problems(self) -> list[str]:
        """Problems that keep frames of its hosts from being sent; none while it is not running."""
        try:
            found: list[str] = self.ask("problems")["problems"]
        except ChildFailed:
            return []
        return found

    def check(self) -> None:
        """Raises ChildFailed if it has ended without being killed."""
        with self._lock:
            if not self.away:
                self._running().check()

    def stop(self, patience: float = 10.0) -> bool:
        """End it, frozen or not; True if it did not have to be killed."""
        with self._lock:
            self.thaw()
            return super().stop(patience)

    def _running(self) -> Child:
        if self._child is None or self.away:
            raise ChildFailed(f"{self.name} is not running")
        return self._child
