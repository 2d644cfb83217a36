"""Fleet of hosts with VMs and processes, sent to real shards, for views."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence

import numpy as np

from acquisition.link.cluster import Cluster
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import Metric, ResourceSet, resource_set_id, schema_hash
from acquisition.wire.table import Entity, Table
from probes.metrics import RESOURCE_SETS
from tests.support.feeder import Feeder

GIB = float(1 << 30)
_HOST = {"memory_total_bytes": 64 * GIB, "memory_available_bytes": 16 * GIB, "cpu_count": 16.0}
_VM = {"memory_resident_bytes": 1.5 * GIB, "vcpu_count": 2.0, "memory_assigned_bytes": 2 * GIB}


def vms(host: str, count: int) -> list[Entity]:
    """VMs named HOST-vm-0 …, their uuids made of their names."""
    rows = []
    for i in range(count):
        stable = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{host}-{i}"))
        rows.append(Entity(entity_id("vm", stable, "1"), "vm", stable, "1", f"{host}-vm-{i}"))
    return rows


def processes(host: str, names: Sequence[str]) -> list[Entity]:
    """Processes with pids 1000, 1001 …"""
    return [
        Entity(entity_id("process", f"{host}:{1000 + i}", "1"), "process", f"{host}:{1000 + i}", "1", name)
        for i, name in enumerate(names)
    ]


class Stream:
    """One resource set of one host: its table, then frames of full width at true ticks."""

    def __init__(self, cluster: Cluster, host: str, resource_set: ResourceSet, entities: Sequence[Entity]) -> None:
        self.feeder = Feeder(cluster, host_id(host), resource_set_id(resource_set.name))
        self.metrics: tuple[Metric, ...] = resource_set.metrics
        self.entities = entities
        self.columns = {metric.name: i for i, metric in enumerate(self.metrics)}
        names = Table(host, resource_set.name, 1.0, "test", True, self.metrics, tuple(entities))
        self.feeder.push_table(names, time.time(), time.monotonic())

    def push(
        self, rows: Sequence[Mapping[str, float]], wall: float, codes: Mapping[tuple[int, str], int] | None = None
    ) -> None:
        """A frame of the time ``wall``; metrics that a row does not name are 0."""
        values = np.zeros((len(rows), len(self.metrics)), "<f4")
        marks = np.zeros(values.shape, "u1")
        for i, row in enumerate(rows):
            for name, value in row.items():
                values[i, self.columns[name]] = value
        for (i, name), code in (codes or {}).items():
            marks[i, self.columns[name]] = code
        ids = [entity.id for entity in self.entities[: len(rows)]]
        self.feeder.push(
            self.feeder.make(values, wall, codes=marks, ids=ids, schema=schema_hash(self.metrics), wall=wall)
        )


class FleetHost:
    """A host with VMs, or with processes where it is given some."""

    def __init__(self, cluster: Cluster, name: str, guests: int = 0, programs: Sequence[str] = ()) -> None:
        self.name = name
        self_row = [Entity(entity_id("host", name, "1"), "host", name, "1", name)]
        self.host = Stream(cluster, name, RESOURCE_SETS["host"], self_row)
        self.below = None
        if guests:
            self.below = Stream(cluster, name, RESOURCE_SETS["vms"], vms(name, guests))
        elif programs:
            self.below = Stream(cluster, name, RESOURCE_SETS["processes"], processes(name, programs))

    def push(self, wall: float, busy: float, codes: Mapping[tuple[int, str], int] | None = None) -> None:
        """One tick: CPU use of the host, shared by what runs on it; ``codes`` by (0, metric) are of the host."""
        idle = {"cpu_idle_ratio": 1 - busy - 0.01, "cpu_iowait_ratio": 0.01, "cpu_user_ratio": busy}
        idle["vms_suffering_ratio"] = 4.0 if busy > 0.9 else 0.0
        self.host.push([{**_HOST, **idle}], wall, codes)
        if self.below is not None:
            n = len(self.below.entities)
            is_vm = self.below.entities[0].kind == "vm"
            shares = 2 * np.arange(1, n + 1) / (n * (n + 1))
            rows = [{"cpu_ratio": 16 * busy * share} for share in shares.tolist()]
            self.below.push([{**(_VM if is_vm else {"memory_resident_bytes": GIB}), **row} for row in rows], wall)
