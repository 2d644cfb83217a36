"""Data center of hosts with VMs, through the real filter, for decisions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout, write_layout
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.snapshot import SnapshotReader
from acquisition.wire.keys import DEFAULT_PARTITIONS
from acquisition.wire.table import Entity, Table
from filters.worker.inputs.plan import InputsSettings
from filters.worker.loop.assembly import lone_worker
from filters.worker.loop.worker import Worker
from filters.worker.partitions.settings import FilterSettings
from tests.support import layouts
from tests.support.feeder import Feeder
from tests.support.holding import hold_partitions
from tests.support.waiting import PATIENCE

GIB = float(1 << 30)


def _gauges(*names: str) -> tuple[Metric, ...]:
    units = {"ratio": "ratio", "bytes": "bytes", "second": "bytes/s"}
    return tuple(Metric(name, units.get(name.rpartition("_")[2], "count"), "gauge", 0.0, 1e15, "") for name in names)


HOST_METRICS = _gauges(
    "cpu_idle_ratio", "cpu_iowait_ratio", "cpu_count", "memory_total_bytes", "memory_available_bytes",
    "network_receive_bytes_per_second", "network_transmit_bytes_per_second", "link_speed_bytes_per_second",
)  # fmt: skip
VM_METRICS = _gauges(
    "cpu_ratio", "cpu_guest_ratio", "memory_resident_bytes", "memory_assigned_bytes",
    "network_receive_bytes_per_second", "network_transmit_bytes_per_second", "vcpu_count", "vcpu_run_ratio",
    "vcpu_delay_ratio", "vcpu_throttled_ratio", "vcpu_suffering_ratio", "state",
)  # fmt: skip
CORES, TOTAL, LINK = 8.0, 64 * GIB, 1.25e9
TICKS = 45  #: that run() sends: more than a window
KEEP_TICKS = 20


class Guest(NamedTuple):
    """A VM: CPU in cores, memory in GiB (assigned; half of it resident). Its uuid is made of its name if it has no
    ``stable`` id."""

    name: str
    cores: float
    gib: float
    labels: Mapping[str, str] = {}
    stable: str = ""
    suffering: float = 0.0
    state: float = 1.0

    def entity(self, host: str) -> Entity:
        """Its process on a host."""
        labels = {"accelerator": "kvm", "started": "10", **self.labels}
        return Entity(entity_id("vm", self.uuid, host), "vm", self.uuid, host, self.name, labels)

    @property
    def uuid(self) -> str:
        return self.stable or f"uuid-{self.name}"


class Machine:
    """One host; ``busy`` is its CPU, by default that of its guests. ``kind`` ``process`` sends them as processes."""

    def __init__(self, cluster: Cluster, name: str, guests: Sequence[Guest] = (), kind: str = "vm") -> None:
        self.cluster = cluster
        self.name = name
        self.guests = tuple(guests)
        self.busy = sum(guest.cores for guest in guests) / CORES
        self.codes: np.ndarray | None = None  #: of the host's row
        self.sends_host = True
        self.clock_ahead = 0.0  #: seconds by which its wall clock is wrong
        self._kind = kind
        self._host = Feeder(cluster, host_id(name), resource_set_id("host"))
        self._set = "vms" if kind == "vm" else "processes"
        self._vms = Feeder(cluster, host_id(name), resource_set_id(self._set))

    @property
    def id(self) -> str:
        return f"{host_id(self.name):016x}"

    def send_tables(self, wall: float) -> None:
        whole = Entity(entity_id("host", self.name, "1"), "host", self.name, "1", self.name)
        if self.sends_host:
            self._send_table(self._host, "host", HOST_METRICS, [whole], wall)
        self._send_table(self._vms, self._set, VM_METRICS, self._entities(), wall)

    def restart(self, wall: float) -> None:
        """A new life of its probe: another epoch, numbers from the beginning."""
        for feeder in (self._host, self._vms):
            feeder.epoch, feeder.sequence, feeder.made = feeder.epoch + 1, 0, 0
        self.send_tables(wall)

    def send(self, wall: float) -> None:
        """The samples of one tick."""
        used = sum(guest.gib / 2 * GIB for guest in self.guests)
        host = [1.0 - self.busy - 0.01, 0.01, CORES, TOTAL, TOTAL - used, 1e6, 2e6, LINK]
        ids = [entity_id("host", self.name, "1")]
        if self.sends_host:
            self._push(self._host, np.array([host]), ids, HOST_METRICS, wall, self.codes)
        rows = [
            [
                g.cores, g.cores * 0.9, g.gib / 2 * GIB, g.gib * GIB, 1e5, 2e5, 2.0, g.cores * 0.9, g.suffering + 0.25,
                0.25, g.suffering, g.state,
            ]
            for g in self.guests
        ]  # fmt: skip
        if rows:
            self._push(self._vms, np.array(rows), [each.id for each in self._entities()], VM_METRICS, wall, None)

    def _entities(self) -> list[Entity]:
        if self._kind == "vm":
            return [guest.entity(self.name) for guest in self.guests]
        stable = [f"{self.name}:{pid}" for pid in range(1, len(self.guests) + 1)]
        return [
            Entity(entity_id("process", one, "1"), "process", one, "1", guest.name, dict(guest.labels or {}))
            for one, guest in zip(stable, self.guests, strict=True)
        ]

    def _push(
        self, feeder: Feeder, values: np.ndarray, ids: list[int], metrics: tuple[Metric, ...], wall: float,
        codes: np.ndarray | None,
    ) -> None:  # fmt: skip
        shown, schema = wall + self.clock_ahead, schema_hash(metrics)
        feeder.push(feeder.make(values, wall - 1000.0, codes=codes, ids=ids, schema=schema, wall=shown))

    def _send_table(
        self, feeder: Feeder, name: str, metrics: tuple[Metric, ...], entities: list[Entity], wall: float
    ) -> None:
        names = Table(self.name, name, 1.0, "test", True, metrics, tuple(entities))
        feeder.push_table(names, wall, wall - 1000.0)


@contextmanager
def smoothing(cluster: Cluster) -> Iterator[Worker]:
    """A filter that computes decision inputs and keeps many ticks."""
    layouts.forget(cluster)
    write_layout(cluster, DEFAULT_PARTITIONS, KEEP_TICKS)
    settings = FilterSettings(
        linger_seconds=0.0, retention_seconds=300.0, keep_ticks=KEEP_TICKS, inputs=InputsSettings()
    )
    hold_partitions(cluster)
    worker = lone_worker(cluster, read_layout(cluster), settings)
    try:
        yield worker
    finally:
        worker.close()


def run(worker: Worker, machines: Iterable[Machine], ticks: int = TICKS, ahead: int = 0) -> int:
    """Send ``ticks`` ticks that end now, or ``ahead`` of it, and smooth them; answers the last."""
    last = int(time.time()) + ahead
    machines = list(machines)
    for machine in machines:
        machine.send_tables(last - ticks + 1.5)
        for tick in range(last - ticks + 1, last + 1):
            machine.send(tick + 0.5)
    smooth(worker, machines, last)
    return last


@contextmanager
def flowing(cluster: Cluster, machines: Sequence[Machine]) -> Iterator[None]:
    """``run``, and then every second a tick, for commands that read the clock.

    The tick goes out as its second begins, so that even a reading without grace finds it. Nobody else may use
    ``cluster`` or the machines meanwhile.
    """
    done = threading.Event()
    with smoothing(cluster) as worker:
        going = threading.Thread(target=_flow, args=(worker, machines, run(worker, machines), done))
        going.start()
        try:
            yield
        finally:
            done.set()
            going.join()


def _flow(worker: Worker, machines: Sequence[Machine], last: int, done: threading.Event) -> None:
    while not done.is_set():
        now = int(time.time())
        for tick in range(last + 1, now + 1):
            for machine in machines:
                machine.send(tick + 0.5)
        last = now
        worker.turn(0.02)


def smooth(worker: Worker, machines: Sequence[Machine], tick: int) -> None:
    """Turn until ``tick`` of these machines has been smoothed and committed."""
    wanted = {machine.id for machine in machines if machine.sends_host}
    wanted |= {f"{machine.id} guests" for machine in machines if machine.guests}
    deadline = time.monotonic() + PATIENCE
    with SnapshotReader(machines[0].cluster.another()) as reader:
        while wanted:
            assert time.monotonic() < deadline, wanted
            worker.turn(0.02)
            done = (block for block in reader.latest().blocks if block.tick == tick)
            wanted -= {f"{b.host_id:016x}{'' if b.resource_set == 'host' else ' guests'}" for b in done}
