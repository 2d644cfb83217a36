"""Scene of smoothed state as the filter leaves it, written by hand."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence

import numpy as np

from acquisition.link.cluster import Cluster
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import INFINITY, Metric, resource_set_id, schema_hash
from acquisition.wire import keys, position, table
from acquisition.wire.position import Commit, Position
from acquisition.wire.records import smoothed
from acquisition.wire.records.planes import OWN
from acquisition.wire.table import Entity, Table
from tests.support.holding import hear_probes, hold_partitions

ALL = b"9999999999999-0"  #: a cursor behind which nothing waits
_FIRST = itertools.count(1, 1_000_000)  #: no two scenes make the same commit
Exceptions = Sequence[tuple[int, int, float]]

METRICS = (
    Metric("cpu_ratio", "cores", "counter", 0.0, INFINITY, "CPU time"),
    Metric("memory_resident_bytes", "bytes", "gauge", 0.0, INFINITY, "memory"),
)


def entities(host: str, names: Sequence[str], epoch: str = "1") -> tuple[Entity, ...]:
    """Processes of a host with pids 1, 2, 3 …"""
    rows = []
    for pid, name in enumerate(names, 1):
        stable = f"{host}:{pid}"
        rows.append(Entity(entity_id("process", stable, epoch), "process", stable, epoch, name))
    return tuple(rows)


def record(
    host: int,
    resource_set: int,
    ids: Sequence[int],
    mean: np.ndarray,
    tick: int,
    *,
    schema: int = schema_hash(METRICS),
    interval: float = 1.0,
    epoch: int = 5,
    sequence: int = 0,
    wall: float | None = None,
    filtered: float | None = None,
    exceptions: Exceptions = (),
    planes: Sequence[str] = ("last", "mean", "variance", "trend"),
    section: bytes = b"",
) -> bytes:
    """A record: last = mean + 1, variance = 4, trend = 0.5; sampled in the middle of its tick.

    ``section`` are decision inputs (tests.support.sections)."""
    mean = np.asarray(mean, "<f4").reshape(len(ids), -1)
    wall = (tick + 0.5) * interval if wall is None else wall
    filtered = wall + 0.01 if filtered is None else filtered
    known = {plane.name: plane.number for plane in OWN}
    numbers = bytes(known[name] for name in planes)
    values = {"last": mean + 1, "mean": mean, "variance": np.full_like(mean, 4.0), "trend": np.full_like(mean, 0.5)}
    head = smoothed.HEADER.pack(
        smoothed.MAGIC, smoothed.VERSION, len(planes), mean.shape[1], len(ids), len(exceptions), host,
        resource_set, schema, interval, len(section), numbers.ljust(8, b"\0"), epoch, sequence or tick, tick, wall,
        wall, filtered,
    )  # fmt: skip
    body = np.asarray(ids, "<u8").tobytes() + b"".join(np.asarray(values[name], "<f4").tobytes() for name in planes)
    return head + section + body + b"".join(struct.pack("<IIf", *row) for row in exceptions)


class Scene:
    """Writes the keys of one (host, resource set) after another."""

    def __init__(self, cluster: Cluster, keep_ticks: int = keys.DEFAULT_KEEP_TICKS) -> None:
        self.cluster = cluster
        self.keep_ticks = keep_ticks
        self.tags = keys.tags(keys.DEFAULT_PARTITIONS)
        self.commits = next(_FIRST)
        hold_partitions(cluster)
        hear_probes(cluster)

    def tag(self, host: int) -> str:
        return self.tags[keys.partition_of(host, len(self.tags))]

    def put(self, key: str, *command: object) -> None:
        """A command, and a commit of the partition, as the filter makes one for everything that it writes."""
        self.cluster.call(key, *command)
        self.commits += 1
        if "{" in key and not key.startswith("commit"):
            commit_key = f"commit:{key[key.index('{') : key.index('}') + 1]}"
            self.cluster.call(
                commit_key, "SET", commit_key, position.encode_commit(Commit(b"s%d" % self.commits, ALL, 0))
            )

    def position(self, host: str, resource_set: str, newest: Position) -> None:
        number = host_id(host)
        key, member = keys.applied(self.tag(number)), keys.member(number, resource_set_id(resource_set))
        self.put(key, "HSET", key, member, position.encode(newest))

    def names(
        self,
        host: str,
        resource_set: str,
        known: Sequence[Entity],
        metrics: tuple[Metric, ...] = METRICS,
        interval: float = 1.0,
    ) -> None:
        number = host_id(host)
        key = keys.names(self.tag(number), number, resource_set_id(resource_set))
        payload = table.encode(Table(host, resource_set, interval, "procfs", True, metrics, tuple(known)))
        self.put(key, "SET", key, payload)

    def record_key(self, host: str, resource_set: str, tick: int) -> str:
        number = host_id(host)
        return keys.smoothed(self.tag(number), number, resource_set_id(resource_set), tick % self.keep_ticks)

    def record(self, host: str, resource_set: str, data: bytes, tick: int) -> None:
        key = self.record_key(host, resource_set, tick)
        self.put(key, "SET", key, data)

    def host(
        self,
        host: str,
        ticks: Sequence[int],
        *,
        resource_set: str = "processes",
        names: Sequence[str] = ("init", "web server"),
        interval: float = 1.0,
        epoch: int = 5,
        exceptions: Exceptions = (),
        lag: float = 0.01,
    ) -> tuple[Entity, ...]:
        """A host with records of ``ticks`` (mean = 10 row + column + tick / 1e6), its position at the
        last of them, and its names."""
        rows = entities(host, names)
        number, set_number = host_id(host), resource_set_id(resource_set)
        for sequence, tick in enumerate(ticks, 1):
            mean = np.arange(len(rows))[:, None] * 10.0 + np.arange(len(METRICS)) + tick % 1000
            wall = (tick + 0.5) * interval
            data = record(
                number, set_number, [row.id for row in rows], mean, tick, interval=interval, epoch=epoch,
                sequence=sequence, exceptions=exceptions, wall=wall, filtered=wall + lag,
            )  # fmt: skip
            self.record(host, resource_set, data, tick)
            self.position(
                host, resource_set, Position(epoch, sequence, tick, wall, interval, applied=sequence * len(rows) * 2)
            )
        self.names(host, resource_set, rows, interval=interval)
        return rows
