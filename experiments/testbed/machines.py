"""Machines of a topology in namespaces of this machine; they take orders.

Each has its own processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from acquisition.errors import ShardpulseError
from experiments.processes.control import Child, ChildFailed, python
from experiments.testbed import capability
from experiments.testbed.commands import path_of
from experiments.testbed.link import Link
from experiments.testbed.network import Testbed
from experiments.testbed.topology import Conditions, Host, Topology

_SECONDS = 60.0


class Machine:
    """An agent (``experiments.processes.agent``) on a host; ``place`` is its directory there."""

    def __init__(self, host: Host, address: str, place: str, command: list[str]) -> None:
        self.host, self.address, self.place = host, address, place
        self._child = Child(f"agent of {host.name}", command)

    def send(self, do: str, **order: Any) -> None:
        """Give an order. Raises ChildFailed."""
        self._child.send({"do": do, **order})

    def receive(self, seconds: float = _SECONDS) -> dict[str, Any]:
        """The answer to the oldest order. Raises ShardpulseError with the host's message."""
        answer = self._child.receive(seconds)
        if "failed" in answer:
            raise ShardpulseError(f"{self.host.name}: {answer['failed']}")
        return answer

    def end(self) -> None:
        """End everything running there, and the agent itself; harmless if it has ended."""
        with contextlib.suppress(ChildFailed):
            self.send("end")
            self._child.receive(_SECONDS)
        self._child.stop()


def order(
    machines: Sequence[Machine], do: str, orders: Callable[[Machine], Mapping[str, Any]], seconds: float = _SECONDS
) -> list[dict[str, Any]]:
    """Give all of them an order at once, with the arguments from ``orders`` for each; their answers.
    Raises ShardpulseError."""
    for machine in machines:
        machine.send(do, **orders(machine))
    return [machine.receive(seconds) for machine in machines]


@contextlib.contextmanager
def local(topology: Topology, directory: Path) -> Iterator[list[Machine]]:
    """Each host in its own namespaces, behind a link as in the topology. Raises CannotCreateError."""
    with contextlib.ExitStack() as stack:
        bed = stack.enter_context(Testbed(len(topology.hosts)))
        machines = []
        for host, place in zip(topology.hosts, bed.hosts, strict=True):
            home = directory / host.name
            home.mkdir(mode=0o700)
            _set(place.link, host.kind.link)
            command = [*_apart(host.name), *python("experiments.processes.agent", str(home))]
            with place.inside():
                machine = Machine(host, place.address, str(home), command)
            stack.callback(machine.end)
            machines.append(machine)
        for machine in machines:
            machine.receive()
        late = [machine for machine in machines if machine.host.kind.clock_offset_seconds]
        order(late, "clock", lambda machine: {"environment": _clock(machine.host.kind.clock_offset_seconds)})
        yield machines


def _set(link: Link, wanted: Conditions) -> None:
    if wanted.delay_seconds or wanted.jitter_seconds:
        link.delay(wanted.delay_seconds, wanted.jitter_seconds)
    if wanted.loss:
        link.loss(wanted.loss)
    if wanted.rate_bits_per_second:
        link.rate(wanted.rate_bits_per_second)


def _apart(name: str) -> list[str]:
    """Command that runs another as the first process of a host, under its name, if the kernel permits."""
    unshare, *rest = capability.APART
    return [str(path_of(unshare)), *rest, name] if capability.has_process_namespaces() else []


def _clock(offset: float) -> dict[str, str]:
    """Environment of parts with a wrong wall clock. The monotonic one is wrong, too, and as steady: with
    FAKETIME_DONT_FAKE_MONOTONIC, time.sleep fails (libfaketime 0.9.10)."""
    return {"LD_PRELOAD": str(capability.clock_library()), "FAKETIME": f"{offset:+f}"}
