"""Running pipeline of a topology, each part started by an agent.

Parts are shards, filters, probes and emulated hosts.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from acquisition.errors import ShardpulseError, TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import write_layout
from acquisition.link.resp import Address, Connection
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.shards.servers import configuration, grants, process, rendering
from acquisition.shards.topology import join
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.values.states import CURRENT
from acquisition.wire.layout import Layout
from experiments.emulation.workload import Workload, host_number, resource_set
from experiments.processes import access
from experiments.processes.access import Access
from experiments.processes.agent import SHARD
from experiments.processes.waiting import eventually, pause
from experiments.testbed.machines import Machine, order
from experiments.testbed.topology import Topology
from probes.metrics import HOST

PORT = 7000  #: of shards, with 17000 for their bus
_CONNECTIONS = 1000  #: of clients beside emulated hosts
_START_SECONDS, _READY_SECONDS, _DRAIN_SECONDS, _ANSWER_SECONDS = 20.0, 120.0, 20.0, 10.0
_EMULATED = "emulated"
_TIMEOUT = 10.0  #: of readers: links may be slow

Member = tuple[int, int]  #: host id, resource set id


class Pipeline:
    """Running parts. Built by ``start``."""

    def __init__(self, topology: Topology, machines: Sequence[Machine], access: Access) -> None:
        self.topology, self.machines = topology, machines
        self._access = access
        self._shards = [machine for machine in machines if machine.host.kind.shard]
        self._emulating = [machine for machine in machines if machine.host.kind.emulated]
        self._check_due = 0.0
        self.members = dict(_members(machines))  #: the machine that samples each member

    @property
    def addresses(self) -> list[Address]:
        """Addresses of the shards."""
        return [Address(machine.address, PORT) for machine in self._shards]

    def connect(self) -> Cluster:
        """A new Cluster with a reader's credentials."""
        return Cluster(self.addresses, self._access.credentials(grants.READER), _TIMEOUT)

    def wait_current(self, reader: SnapshotReader, seconds: float) -> float:
        """Wait until every host is current; one with a wrong clock must only have reported. Returns the seconds taken.
        Raises TemporaryError with those that are not."""
        began = time.monotonic()

        def problem() -> str:
            absent = self._not_current(reader)
            named = [f"{name} ({why})" for name, why in list(absent.items())[:5]]
            return f"{len(absent)} hosts are not current after {seconds:g} s: {', '.join(named)}"

        eventually(lambda: not self._not_current(reader), seconds, problem, self._look_after)
        return time.monotonic() - began

    def _not_current(self, reader: SnapshotReader) -> dict[str, str]:
        found = {(block.host_id, block.set_id): block for block in reader.latest().blocks}
        absent = {}
        for member, machine in self.members.items():
            block = found.get(member)
            if block is None or math.isinf(block.age_seconds):
                absent[machine.host.name] = "nothing has come"
            elif block.state != CURRENT and not machine.host.kind.clock_offset_seconds:
                absent[machine.host.name] = f"{block.state}: {block.delay or block.cause or 'no reason given'}"
        return absent

    def check(self) -> None:
        """Check at most once a second. Raises ShardpulseError naming ended parts, with their output."""
        if time.monotonic() < self._check_due:
            return
        self._check_due = time.monotonic() + 1.0
        answers = order(self.machines, "ended", lambda _: {})
        found = [
            f"{machine.host.name}: {part} ended with {words}"
            for machine, answer in zip(self.machines, answers, strict=True)
            for part, words in answer["ended"].items()
        ]
        if found:
            raise ShardpulseError("; ".join(found))

    def stop_emulated(self) -> int:
        """Stop frames of emulated hosts, and wait for waiting ones; the number of machines that could not send all."""
        self._tell_emulated(lambda _: {"do": "stop"})
        return sum(not answer["drained"] for answer in self._hear_emulated(_DRAIN_SECONDS + _ANSWER_SECONDS))

    def _tell_emulated(self, message: Callable[[Machine], dict[str, Any]]) -> None:
        order(self._emulating, "tell", lambda machine: {"part": _EMULATED, "message": message(machine)})

    def _hear_emulated(self, seconds: float) -> list[dict[str, Any]]:
        """Answers of the hosts of each machine. Raises TemporaryError naming one that does not answer in time."""
        heard: list[dict[str, Any]] = []
        silent, deadline = self._emulating, time.monotonic() + seconds
        while silent:
            answers = order(silent, "hear", lambda _: {"part": _EMULATED})
            heard += [answer["message"] for answer in answers if answer]
            silent = [machine for machine, answer in zip(silent, answers, strict=True) if not answer]
            if silent and time.monotonic() > deadline:
                raise TemporaryError(f"{silent[0].host.name}: its emulated hosts have not answered for {seconds:g} s")
        return heard

    # -- Starting, in this order.

    def start_shards(self, staged: Path) -> None:
        """Start servers as a cluster with our layout. Raises ShardpulseError."""
        servers = order(self._shards, "server", lambda _: {})
        files = {
            machine.host.name: self._shard_files(staged / machine.host.name, machine, found)
            for machine, found in zip(self._shards, servers, strict=True)
        }
        order(self._shards, "files", lambda machine: {"files": files[machine.host.name]})
        order(self._shards, "shard", lambda machine: {"host": machine.address, "port": PORT})
        deadline = time.monotonic() + _START_SECONDS
        for address in self.addresses:
            answers = partial(self._answers, address)
            eventually(answers, deadline - time.monotonic(), f"shard {address} does not answer", self._look_after)
        operator = self._access.credentials(grants.OPERATOR)
        join.form(self.addresses, credentials=operator)
        with contextlib.closing(Cluster(self.addresses, operator, _TIMEOUT)) as cluster:
            write_layout(cluster, *Layout())

    def _answers(self, address: Address) -> bool:
        with contextlib.closing(Connection(address, self._access.credentials(access.MASTER_KEY), _TIMEOUT)) as made:
            return made.call("PING") is not None

    def _look_after(self) -> None:
        self.check()
        pause()

    def _shard_files(self, staged: Path, machine: Machine, found: dict[str, Any]) -> dict[str, str]:
        """Files of a shard's directory, made in ``staged``."""
        place, ours = f"{machine.place}/{SHARD}", access.server()
        module = ours.tls_module if found["path"] == ours.path else ""  # Debian's server has TLS built in
        emulated = sum(each.host.kind.emulated for each in self.machines)
        server = rendering.Server(
            machine.address, (machine.address,), PORT, found["core"], self.topology.maxmemory,
            _CONNECTIONS + 2 * emulated, place, place, "", tls_module=module,
        )  # fmt: skip
        staged.mkdir(parents=True)
        self._access.certify(staged, [machine.address])
        self._access.list_users(staged)
        (staged / "ca.pem").write_bytes(self._access.ca.read_bytes())
        own = {"supervised": "no", "logfile": configuration.quoted(f"{place}/{process.LOG}")}
        text = rendering.configuration_of(server, self._access.passwords[grants.REPLICATION])
        (staged / "redis.conf").write_text(text + configuration.text(own))
        return {f"{SHARD}/{path.name}": path.read_text() for path in staged.iterdir()}

    def start_parts(self) -> None:
        """Start filters, probes and emulated hosts, all connected when this returns. Raises ShardpulseError."""
        for role, user in (("filter", grants.FILTER), ("probe", grants.PROBE), (_EMULATED, grants.PROBE)):
            chosen = [machine for machine in self.machines if getattr(machine.host.kind, role)]
            order(chosen, "files", partial(self._files, role, user))
            order(chosen, "start", partial(_start, role))
        self._tell_emulated(self._task)
        self._hear_emulated(_READY_SECONDS)
        self._tell_emulated(lambda _: {"do": "start"})

    def _there(self, machine: Machine) -> Access:
        """Paths of our access files on a machine."""
        return self._access._replace(directory=Path(machine.place))

    def _files(self, role: str, user: str, machine: Machine) -> dict[str, dict[str, str]]:
        """Files of a part there: its configuration, its password, and its trusted authority."""
        there, place = self._there(machine), Path(machine.place)
        password, ca = there.password_file(user), there.ca
        text = there.section(user, self.addresses)
        if role == "probe":
            text = (
                f'[host]\nname = "{machine.host.name}"\n'
                f'[probe]\ninterval_seconds = {self.topology.interval}\nring_path = "{place}/probe.ring"\n{text}'
            )
        files = {
            f"{role}.toml": text,
            str(password.relative_to(place)): f"{self._access.passwords[user]}\n",
            str(ca.relative_to(place)): self._access.ca.read_text(),
        }
        return {"files": files}

    def _task(self, machine: Machine) -> dict[str, Any]:
        """Task for ``experiments.emulation.generator``."""
        kind, first = machine.host.kind, machine.host.first
        everybody = max(each.host.first + each.host.kind.emulated for each in self.machines)
        workload = Workload(everybody, kind.entities, kind.metrics, self.topology.interval)
        return {
            "workload": workload._asdict(), "hosts": (first, first + kind.emulated), "lean": False, "checked": [],
            "shards": [str(address) for address in self.addresses], "outstanding": 0, "held_frames": 600,
            "held_seconds": 600.0, "position_interval": 2.0, "drain_seconds": _DRAIN_SECONDS, "joining": 0,
            "old_seconds": 1e9, "credentials": self._there(machine).credentials(grants.PROBE), "profile": None,
        }  # fmt: skip


def _members(machines: Sequence[Machine]) -> Iterator[tuple[Member, Machine]]:
    """Members of each machine; of a real probe only the resource set ``host``."""
    for machine in machines:
        kind, first = machine.host.kind, machine.host.first
        if kind.probe:
            yield (host_id(machine.host.name), resource_set_id(HOST.name)), machine
        set_id = resource_set_id(resource_set(kind.metrics).name)
        for index in range(first, first + kind.emulated):
            yield (host_number(index), set_id), machine


def _start(role: str, machine: Machine) -> dict[str, Any]:
    if role == _EMULATED:
        return {"part": role, "module": "experiments.emulation.generator", "arguments": [], "talks": True}
    arguments = [role, "--config", f"{machine.place}/{role}.toml"]
    return {"part": role, "module": "acquisition", "arguments": arguments, "talks": False}


def start(topology: Topology, machines: Sequence[Machine], directory: Path) -> Pipeline:
    """Start everything; it ends with the machines. Raises ShardpulseError."""
    made = Pipeline(topology, machines, access.make(directory / "access"))
    made.start_shards(directory / "staged")
    made.start_parts()
    return made
