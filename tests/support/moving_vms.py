"""Moving VMs in a small data center under faults, with the truth.

Time is the test's own: ``Plant.now`` is the clock of the filter and of the readers. Every host has a monotonic
clock that began with its boot, and a wall clock that may be off. Its frames carry the tick in one of the
metrics, so that a value in a snapshot tells which tick it belongs to.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from acquisition.link.cluster import Cluster
from acquisition.model import codes as validity
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import INFINITY, Metric, resource_set_id, schema_hash
from acquisition.wire import frame as wire
from acquisition.wire import keys, table
from acquisition.wire.frame import Frame
from acquisition.wire.table import Entity, Table

METRICS = (
    Metric("cpu_guest_ratio", "cores", "counter", 0.0, INFINITY, "CPU time that ran the guest"),
    Metric("cpu_ratio", "cores", "counter", 0.0, INFINITY, "CPU time in all"),
    Metric("memory_resident_bytes", "bytes", "gauge", 0.0, INFINITY, "stands for the tick of the host, see tag"),
)
SCHEMA = schema_hash(METRICS)
SET = resource_set_id("vms")
START = 1_700_000_000  #: the first tick; exact in the float64 of a wall clock
_RING = 64


def tag(tick: int) -> float:
    """A tick as a value that float32 holds exactly."""
    return float(tick % (1 << 20))


@dataclass(eq=False)
class Process:
    """A qemu process. ``working`` is what its guest uses now, in cores: 0 while it waits, is paused or idle."""

    uuid: str
    host: Host
    born: float  #: true time
    incoming: bool
    serial: int
    working: float = 0.0
    old: bool = False  #: sampled before: a counter without predecessor has no rate
    ran: bool = False  #: the guest has run in it in some frame that reached the filter

    @property
    def entity(self) -> Entity:
        """As the probe names it."""
        labels = {"accelerator": "kvm", "started": f"{self.born - self.host.booted:.2f}"}
        if self.incoming:
            labels["incoming"] = "yes"
        epoch = f"{self.host.boots}:{self.serial}"
        return Entity(entity_id("vm", self.uuid, epoch), "vm", self.uuid, epoch, self.uuid, labels)


@dataclass(eq=False)
class Host:
    """A host and its probe: ``held`` are frames that wait for a network that is away until ``away_until``."""

    name: str
    booted: float
    boots: int = 1
    step: float = 0.0  #: its wall clock less the true time
    processes: list[Process] = field(default_factory=list)
    sequence: int = 0
    made: int = 0
    known: frozenset[int] = frozenset()
    recent: deque[list[Entity]] = field(default_factory=lambda: deque(maxlen=keys.DEFAULT_KEEP_TICKS))
    ring: deque[Frame] = field(default_factory=lambda: deque(maxlen=_RING))
    held: list[Frame] = field(default_factory=list)
    away_until: int = 0
    crashed_until: int = 0
    delivered: float = 0.0  #: true time at which the filter last got something
    sent: dict[int, dict[int, float]] = field(default_factory=dict)  #: tick -> entity -> guest time, as delivered

    @property
    def id(self) -> int:
        """Its identity."""
        return host_id(self.name)

    @property
    def tag(self) -> str:
        """The hash tag of its partition."""
        return keys.tags(keys.DEFAULT_PARTITIONS)[keys.partition_of(self.id, keys.DEFAULT_PARTITIONS)]

    def _number(self, frame: Frame) -> None:
        self.sequence += 1
        numbered = frame._replace(epoch=self.boots, sequence=self.sequence, made=self.made)
        self.made += frame.samples
        self.ring.append(numbered)
        self.held.append(numbered)

    def sample(self, now: float) -> None:
        """Make the frames of this moment: a table where rows are new, and the samples."""
        monotonic, wall = now - self.booted, now + self.step
        rows = [process.entity for process in self.processes]
        ids = [row.id for row in rows]
        empty = Frame(wire.KIND_TABLE, SCHEMA, self.id, SET, 0, 0, 1.0, 0, 0, 1, 0, int(wall), wall, monotonic)
        self.recent.append(rows)
        if not self.known or self.sequence % 61 == 60:
            named = {row.id: row for recent in self.recent for row in recent}
            self._name(empty, True, list(named.values()))
        elif not self.known.issuperset(ids):
            self._name(empty, False, [row for row in rows if row.id not in self.known])
        values = np.zeros((len(rows), len(METRICS)), "<f4")
        marks = np.zeros(values.shape, np.uint8)
        for row, process in enumerate(self.processes):
            values[row] = process.working, process.working + 0.01, tag(int(wall))
            if not process.old:
                marks[row, :2], values[row, :2] = validity.FIRST, np.nan
                process.old = True
        self._number(
            empty._replace(
                kind=wire.KIND_SAMPLES, entities=len(rows), metrics=len(METRICS),
                ids=np.array(ids, "<u8").tobytes(), values=values.tobytes(), codes=marks.tobytes(),
            )
        )  # fmt: skip

    def _name(self, empty: Frame, complete: bool, rows: list[Entity]) -> None:
        """A table as a probe sends it: a complete one names what has just gone as well."""
        ids = frozenset(row.id for row in rows)
        self.known = ids if complete else self.known | ids
        names = Table(self.name, "vms", 1.0, "test", complete, METRICS, tuple(rows))
        self._number(empty._replace(payload=table.encode(names)))

    def deliver(self, cluster: Cluster, now: float) -> bytes:
        """Send what is held; the id of the newest entry, empty when there was none."""
        entry = b""
        for frame in self.held:
            floor = self.ring[0].sequence if self.ring else frame.sequence
            data = wire.encode(frame._replace(floor=min(floor, frame.sequence)))
            entry = cluster.call(keys.raw(self.tag), "XADD", keys.raw(self.tag), "*", "f", data)
            self.delivered = now
            if frame.kind == wire.KIND_SAMPLES:
                self._note(frame)
        self.held.clear()
        return entry

    def _note(self, frame: Frame) -> None:
        guest = np.frombuffer(frame.values, "<f4").reshape(-1, len(METRICS))[:, 0].tolist()
        row = dict(zip(np.frombuffer(frame.ids, "<u8").tolist(), guest, strict=True))
        self.sent[frame.tick] = row
        for process in self.processes:
            process.ran |= row.get(process.entity.id, 0.0) > 0.0

    def send_again(self) -> None:
        """The shard has lost everything: send all that the ring holds."""
        self.held = list(self.ring)
        self.known = frozenset()


@dataclass(eq=False)
class Migration:
    """One migration: ``at`` counts the ticks since the destination's process was started."""

    source: Process
    target: Process
    switch: int  #: the tick in which the guest changes over
    end: int  #: the tick in which the process that lost ends
    aborts: bool
    at: int = 0


class Plant:
    """Hosts with VMs. ``step`` lets a second pass."""

    def __init__(self, seed: int, hosts: int, vms: int) -> None:
        self.random = random.Random(seed)
        self.tick = START
        self.hosts = [Host(f"host{i}", START - 1000.0 * (i + 1)) for i in range(hosts)]
        self.migrations: dict[str, Migration] = {}
        self.serial = 0
        self.uuids = [f"vm{i}" for i in range(vms)]
        self.events: list[str] = []
        for i, uuid in enumerate(self.uuids):
            self.start(uuid, self.hosts[i % hosts], START - 500.0 - i)

    @property
    def now(self) -> float:
        """True time: the end of the tick, and the grace time over."""
        return self.tick + 1.6

    def start(self, uuid: str, host: Host, born: float, incoming: bool = False) -> Process:
        """Start a process."""
        self.serial += 1
        process = Process(uuid, host, born, incoming, self.serial)
        host.processes.append(process)
        return process

    def end(self, process: Process) -> None:
        """End a process."""
        process.host.processes.remove(process)

    @property
    def alive(self) -> list[Host]:
        """The hosts that run."""
        return [host for host in self.hosts if self.tick >= host.crashed_until]

    def processes(self, uuid: str) -> list[Process]:
        """All processes of a VM, oldest first."""
        found = [process for host in self.hosts for process in host.processes if process.uuid == uuid]
        return sorted(found, key=lambda process: process.born)

    def step(self) -> None:
        """One second: guests work, migrations go on, all live hosts sample."""
        self.tick += 1
        for host in self.alive:
            for process in host.processes:
                if process.uuid not in self.migrations:
                    process.working = self._load()
        for uuid in sorted(self.migrations):
            self._go_on(self.migrations[uuid])
        for host in self.alive:
            host.sample(self.tick + 0.05 + 0.1 * self.hosts.index(host))

    def _load(self) -> float:
        return 0.0 if self.random.random() < 0.2 else self.random.uniform(0.05, 2.0)

    def migrate(self, uuid: str) -> None:
        """Start to migrate a VM to another live host."""
        (source,) = self.processes(uuid)
        target = self.start(uuid, self.random.choice([h for h in self.alive if h is not source.host]), self.tick, True)
        switch = self.random.randrange(1, 6)
        aborts = self.random.random() < 0.4
        early = aborts and self.random.random() < 0.6  # before anything has changed over
        end = self.random.randrange(1, switch + 1) if early else switch + self.random.randrange(1, 4)
        self.migrations[uuid] = Migration(source, target, switch, end, aborts)
        self.events.append(
            f"{self.tick}: {uuid} {source.host.name} -> {target.host.name},"
            f" changes over after {switch} s, {'aborts' if aborts else 'ends'} after {end} s"
        )

    def _go_on(self, migration: Migration) -> None:
        migration.at += 1
        source, target = migration.source, migration.target
        if not (self._lives(source) and self._lives(target)):
            self._bereave(migration)
            return
        if migration.at < migration.switch:
            source.working, target.working = self._load(), 0.0
        elif migration.at == migration.switch:  # who is seen to have run depends on when each is sampled
            source.working, target.working = self.random.choice([(0.4, 0.0), (0.4, 0.3), (0.0, 0.3), (0.0, 0.0)])
        else:
            source.working, target.working = 0.0, self._load()
        if migration.at >= migration.end:
            self.end(target if migration.aborts else source)
            (source if migration.aborts else target).working = self._load()
            del self.migrations[source.uuid]

    def _bereave(self, migration: Migration) -> None:
        """One side has died with its host: a source resumes, a destination goes on if it has all of the guest."""
        if self._lives(migration.source):
            migration.source.working = self._load()
        elif migration.at <= migration.switch:
            self.end(migration.target)
        del self.migrations[migration.source.uuid]

    def _lives(self, process: Process) -> bool:
        return process in process.host.processes

    def crash(self, host: Host, seconds: int) -> None:
        """A host dies with all of its processes and comes back with a new boot."""
        host.crashed_until = self.tick + seconds
        host.processes.clear()
        host.ring.clear()
        host.held.clear()
        host.boots += 1
        host.sequence = host.made = 0
        host.known = frozenset()
        host.recent.clear()
        host.booted = self.tick + seconds - 0.5
        self.events.append(f"{self.tick}: {host.name} crashes for {seconds} s")

    def restart_lost(self) -> None:
        """High availability: a VM without any process is started again elsewhere."""
        for uuid in self.uuids:
            if not self.processes(uuid) and self.alive:
                started = self.start(uuid, self.random.choice(self.alive), self.tick)
                self.events.append(f"{self.tick}: {uuid} is started again on {started.host.name}")
