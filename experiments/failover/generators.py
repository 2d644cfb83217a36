"""Generator handles of a failover run: asked together, answers joined."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

from acquisition.errors import TemporaryError
from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials
from experiments.emulation.workload import Workload
from experiments.processes.control import Child, python

_HOSTS_PER_GENERATOR = 2000
_ANSWER_SECONDS = 120.0  #: beyond an order's own time: thousands of hosts are made, or say goodbye one by one


def fitting(hosts: int) -> int:
    """Number of generators for the hosts: at most one per core."""
    return max(1, min(len(os.sched_getaffinity(0)), -(-hosts // _HOSTS_PER_GENERATOR)))


class Generators:
    """A context manager that ends them. Each has every ``count``-th host of the workload, and a TLS context of its own.

    Raises ChildFailed when one ends, TemporaryError naming the event that did not happen in time.
    """

    def __init__(
        self,
        count: int,
        workload: Workload,
        seeds: Sequence[Address],
        credentials: Credentials,
        position_interval: float,
    ) -> None:
        self.samples = 0  #: made; known when they have settled
        self._logs: dict[int, list[float]] = {}
        self._stack = contextlib.ExitStack()
        self._children: list[Child] = []
        self._count = count
        self._task = {
            "workload": workload._asdict(),
            "shards": [str(address) for address in seeds],
            "credentials": list(credentials),
            "position_interval": position_interval,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def prepare(self) -> None:
        """Start the processes; returns when all hosts exist; none connects before the first ``watch``."""
        for number in range(self._count):
            child = Child(f"generator {number}", python("experiments.failover.generator"))
            self._children.append(self._stack.enter_context(child))
            child.send(self._task | {"share": (number, self._count)})
        for child in self._children:
            child.receive(_ANSWER_SECONDS)

    def roles(self) -> dict[str, list[int]]:
        """Process id of each, by name."""
        return {child.name: [child.pid] for child in self._children}

    def watch(self, hosts: Sequence[int] | None, seconds: float, what: str) -> float:
        """Wait until each of these hosts (None: all) has had a frame accepted that it makes from now on; returns that
        moment, by the monotonic clock."""
        chosen = None if hosts is None else list(hosts)
        answers = self._ask({"do": "watch", "hosts": chosen, "seconds": seconds, "what": what}, seconds)
        return max(float(answer["at"]) for answer in answers)

    def errors(self) -> Counter[str]:
        """Errors that have ended connections of hosts so far, by kind."""
        found: Counter[str] = Counter()
        for answer in self._ask({"do": "errors"}, 0.0):
            found.update(answer["errors"])
        return found

    def settle(self, seconds: float) -> None:
        """Stop sampling and work until the filter has applied everything."""
        for answer in self._ask({"do": "settle", "seconds": seconds}, seconds):
            self.samples += answer["samples"]
            self._logs |= {int(index): times for index, times in answer["logs"].items()}

    def logs(self) -> dict[int, list[float]]:
        """Monotonic times of all frames by host index, known when they have settled."""
        return self._logs

    def _ask(self, order: dict[str, Any], seconds: float) -> list[dict[str, Any]]:
        """Answers of all generators, each of which works until it has one."""
        for child in self._children:
            child.send(order)
        answers = [child.receive(seconds + _ANSWER_SECONDS) for child in self._children]
        failed = [
            f"{child.name}: {a['failed']}" for child, a in zip(self._children, answers, strict=True) if "failed" in a
        ]
        if failed:
            raise TemporaryError("; ".join(failed))
        return answers
