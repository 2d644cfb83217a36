"""Watcher scene: frames of a small data center, and Watcher's own model.

Hosts and VMs are given by their raw loads; ``Center.feed`` sends these as frames of the resource sets
``host`` and ``vms`` through real shards and a real filter, ``Center.model`` makes Watcher's model of it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from watcher.decision_engine.model import element
from watcher.decision_engine.model.model_root import ModelRoot

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model import codes
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import ResourceSet, resource_set_id, schema_hash
from acquisition.snapshot import SnapshotReader
from acquisition.wire.position import Position
from acquisition.wire.table import Entity, Table
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from probes.metrics import RESOURCE_SETS
from tests.support.feeder import Feeder
from tests.support.holding import hear_probes, hold_partitions

CORES = 8
MEMORY_MIB = 32768
MEBIBYTE = 1 << 20
IOWAIT = 0.05
TICKS = 30


class Guest(NamedTuple):
    """A VM: CPU in cores (None: MISSING), vCPUs, resident memory in MiB."""

    name: str
    cores: float | None
    vcpus: int = 4
    ram_mib: float = 1024.0
    started: float = -1000.0  #: by the clock that counts ticks
    incoming: bool = False  #: started to receive a migration

    @property
    def uuid(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, self.name))


class ComputeHost(NamedTuple):
    """A host: busy share of its cores (None: MISSING), memory in use, its VMs; of the memory in use
    ``huge_mib`` are free huge pages (None: MISSING)."""

    name: str
    busy: float | None
    guests: Sequence[Guest] = ()
    used_mib: float = 8192.0
    huge_mib: float | None = None


class Row(NamedTuple):
    """What is sent of one entity: figures that stand still, and one that is noisy."""

    entity: Entity
    steady: Mapping[str, float | None]
    noisy: str
    load: float | None


class Center:
    """Machines that send to shards, and the filter that takes it."""

    def __init__(self, cluster: Cluster, machines: Sequence[ComputeHost]) -> None:
        self.cluster = cluster
        self.machines = machines
        hold_partitions(cluster)
        hear_probes(cluster)
        self.worker = lone_worker(cluster, read_layout(cluster), FilterSettings(linger_seconds=0.0))
        self._epoch = 0

    def feed(self, late_by: Mapping[str, float] | None = None, noise: float = 0.02) -> None:
        """Send the last ``TICKS`` seconds of every machine, and wait until the filter has applied them.

        Loads alternate around their figure by ``noise`` (relative). The clock of a machine in
        ``late_by`` stopped so many seconds ago. Each call is another start of every probe.
        """
        self._epoch += 1
        now = time.time()
        wanted = 0
        for machine in self.machines:
            end = now - (late_by or {}).get(machine.name, 0.0)
            self._send(machine.name, RESOURCE_SETS["host"], [_host_row(machine)], end, noise)
            if machine.guests:
                self._send(
                    machine.name, RESOURCE_SETS["vms"], [_guest_row(each) for each in machine.guests], end, noise
                )
            wanted += 1 + bool(machine.guests)
        deadline = time.monotonic() + 20
        reader = SnapshotReader(self.cluster)
        while sum(self._is_applied(block.position) for block in reader.latest().blocks) < wanted:
            assert time.monotonic() < deadline, "the filter does not come to the end of the frames"
            self.worker.turn(0.05)

    def close(self) -> None:
        self.worker.close()

    def model(self) -> Any:
        """The same hosts and VMs as Watcher's Nova collector would give them."""
        model = ModelRoot()
        for number, machine in enumerate(self.machines):
            node = compute_node(machine.name, number)
            model.add_node(node)
            for guest in machine.guests:
                instance = instance_of(guest)
                model.add_instance(instance)
                model.map_instance(instance, node)
        return model

    def _is_applied(self, position: Position | None) -> bool:
        return position is not None and position.epoch == self._epoch and position.sequence > TICKS

    def _send(self, host: str, of: ResourceSet, rows: Sequence[Row], end: float, noise: float) -> None:
        feeder = Feeder(self.cluster, host_id(host), resource_set_id(of.name), self._epoch)
        names = Table(host, of.name, 1.0, "test", True, of.metrics, tuple(row.entity for row in rows))
        feeder.push_table(names, end, 0.0)
        for tick in range(TICKS):
            values = _values(of, rows, 1 + noise * (-1) ** tick)
            marks = np.where(np.isnan(values), codes.MISSING, codes.VALID)
            feeder.push(
                feeder.make(
                    values, float(tick), codes=marks, ids=[row.entity.id for row in rows],
                    schema=schema_hash(of.metrics), wall=end - TICKS + 1 + tick,
                )
            )  # fmt: skip


def compute_node(hostname: str, number: int = 0) -> Any:
    """Watcher's model of a host."""
    return element.ComputeNode(
        uuid=str(uuid.uuid5(uuid.NAMESPACE_DNS, f"node {number:03} {hostname}")), hostname=hostname, vcpus=CORES,
        vcpu_reserved=0, vcpu_ratio=4.0, memory=MEMORY_MIB, memory_mb_reserved=0, memory_ratio=1.0, disk=1000,
        disk_gb_reserved=0, disk_ratio=1.0, status="enabled", state="up",
    )  # fmt: skip


def instance_of(guest: Guest) -> Any:
    """Watcher's model of a VM."""
    return element.Instance(
        uuid=guest.uuid, name=guest.name, vcpus=guest.vcpus, memory=2048, disk=20, state="active",
        watcher_exclude=False, metadata={}, locked=False,
    )  # fmt: skip


def _guest_row(guest: Guest) -> Row:
    steady: dict[str, float | None] = {
        "vcpu_count": float(guest.vcpus),
        "memory_resident_bytes": guest.ram_mib * MEBIBYTE,
        "memory_assigned_bytes": 2048.0 * MEBIBYTE,
    }
    steady["cpu_guest_ratio"] = guest.cores
    labels = {"accelerator": "kvm", "started": str(guest.started)} | ({"incoming": "yes"} if guest.incoming else {})
    return Row(_entity("vm", guest.uuid, guest.name, str(guest.started), labels), steady, "cpu_ratio", guest.cores)


def _host_row(machine: ComputeHost) -> Row:
    steady = {
        "cpu_user_ratio": machine.busy,
        "memory_total_bytes": float(MEMORY_MIB * MEBIBYTE),
        "memory_available_bytes": (MEMORY_MIB - machine.used_mib) * MEBIBYTE,
        "cpu_iowait_ratio": IOWAIT,
        "hugepages_available_bytes": None if machine.huge_mib is None else machine.huge_mib * MEBIBYTE,
    }
    idle = None if machine.busy is None else 1 - IOWAIT - machine.busy
    return Row(_entity("host", machine.name, machine.name, "1", {}), steady, "cpu_idle_ratio", idle)


def _entity(kind: str, stable: str, name: str, epoch: str, labels: dict[str, str]) -> Entity:
    return Entity(entity_id(kind, stable, epoch), kind, stable, epoch, name, labels)


def _values(of: ResourceSet, rows: Sequence[Row], scale: float) -> np.ndarray:
    """(n, m) float32; NaN where a figure is missing."""
    values = np.full((len(rows), len(of.metrics)), np.nan, np.float32)
    columns = {metric.name: column for column, metric in enumerate(of.metrics)}
    for line, row in enumerate(rows):
        for name, figure in row.steady.items():
            values[line, columns[name]] = np.nan if figure is None else figure
        if row.load is not None:
            values[line, columns[row.noisy]] = row.load * scale
    return values
