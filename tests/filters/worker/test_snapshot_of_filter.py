"""From frame to snapshot through the real filter: what is pushed is what is read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model import codes
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.values.states import CURRENT, LATE
from acquisition.wire import keys
from acquisition.wire.table import Entity, Table
from filters.worker.loop.assembly import lone_worker
from filters.worker.loop.worker import Worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import turn_until
from tests.support.feeder import Feeder
from tests.support.holding import hold_partitions

START = 1_000_000
METRICS = (Metric("cpu_ratio", "cores", "counter", 0, 9, ""), Metric("memory", "bytes", "gauge", 0, 9, ""))


class Source:
    """A feeder that sends a table as well, and knows its names."""

    def __init__(self, cluster: Cluster, host: str, epoch: int = 11) -> None:
        self.feeder = Feeder(cluster, host_id(host), resource_set_id("processes"), epoch)
        self.host = host
        self.entities = [
            Entity(entity_id("process", f"{host}:{pid}", "e"), "process", f"{host}:{pid}", "e", f"process {pid}")
            for pid in range(1, 4)
        ]

    def send_table(self) -> None:
        names = Table(self.host, "processes", 1.0, "test", True, METRICS, tuple(self.entities))
        self.feeder.push_table(names, float(START), 0.0)

    def send(self, tick: int, values: np.ndarray, marks: np.ndarray | None = None) -> None:
        ids = [entity.id for entity in self.entities[: len(values)]]
        data = self.feeder.make(
            values, float(tick), codes=marks, ids=ids, schema=schema_hash(METRICS), wall=START + tick + 0.5
        )
        self.feeder.push(data)


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[Worker]:
    hold_partitions(cluster)
    worker = lone_worker(cluster, read_layout(cluster), FilterSettings(linger_seconds=0.0))
    yield worker
    worker.close()


def samples(tick: int) -> np.ndarray:
    return np.arange(6, dtype="<f4").reshape(3, 2) + tick


def test_what_is_pushed_is_what_is_read(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    now = [0.0]
    source, other = Source(cluster, "web1"), Source(cluster, "web2")
    marks = np.zeros((3, 2), np.uint8)
    marks[1, 1] = codes.RANGE
    with SnapshotReader(shards.connect(), clock=lambda: now[0]) as reader:
        for each in (source, other):
            each.send_table()
        for tick in range(1, 6):
            source.send(tick, samples(tick), marks if tick >= 4 else None)
        other.send(1, samples(1))
        now[0] = START + 5.9
        turn_until(worker, lambda: {b.position.sequence for b in reader.latest().blocks if b.position} == {6, 2})
        latest = reader.latest()
        rows = {(row.host, row.entity, row.metric): row for row in latest.rows()}
        row = rows["web1", "process 2", "memory"]
        assert (row.tick, row.last, row.validity, row.stale_seconds) == (START + 5, 8.0, "RANGE", 2.0)
        assert rows["web1", "process 1", "cpu_ratio"].last == 5.0
        assert rows["web1", "process 1", "cpu_ratio"].validity == "VALID"

        coherent = reader.coherent()
        found = {block.host: (block.state, block.tick) for block in coherent.blocks}
        assert found == {"web1": (CURRENT, START + 4), "web2": (LATE, START + 1)}
        matrix = coherent.matrix("processes", "memory", host="web1")
        assert matrix.entities == ["process 1", "process 2", "process 3"]
        assert matrix.last.tolist() == [5.0, 7.0, 9.0]
        assert matrix.stale.tolist() == [0.0, 1.0, 0.0]
        assert (coherent.totals.applied, coherent.totals.lost, coherent.totals.invalid) == (36, 0, 2)


def test_the_filter_restarts_and_the_probe_starts_a_new_epoch(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    now = [START + 3.9]
    source = Source(cluster, "web1")
    with SnapshotReader(shards.connect(), clock=lambda: now[0]) as reader:
        source.send_table()
        for tick in (1, 2, 3):
            source.send(tick, samples(tick))
        turn_until(worker, lambda: [b.tick for b in reader.latest().blocks] == [START + 3])
        before = reader.coherent().matrix("processes", "cpu_ratio").mean.tolist()
        worker.close()
        second = lone_worker(cluster, read_layout(cluster), FilterSettings(linger_seconds=0.0))
        source.send(4, samples(4))
        turn_until(second, lambda: [b.tick for b in reader.latest().blocks] == [START + 4])
        assert reader.coherent().matrix("processes", "cpu_ratio").mean.tolist() == before
        fresh = Source(cluster, "web1", epoch=12)
        fresh.send_table()
        fresh.send(5, samples(5))
        turn_until(second, lambda: [b.tick for b in reader.latest().blocks] == [START + 5])
        second.close()
        assert len(reader.coherent().late) == 1, "records of the old epoch do not stand in"
        now[0] = START + 6.6
        assert reader.coherent().blocks[0].state == CURRENT


def test_an_entity_that_vanishes_is_in_no_later_snapshot(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    now = [START + 2.9]
    source = Source(cluster, "web1")
    with SnapshotReader(shards.connect(), clock=lambda: now[0]) as reader:
        source.send_table()
        source.send(1, samples(1))
        source.send(2, samples(2)[:2])
        turn_until(worker, lambda: [b.tick for b in reader.latest().blocks] == [START + 2])
        assert reader.coherent().matrix("processes", "cpu_ratio").entities == ["process 1", "process 2", "process 3"]
        now[0] = START + 3.6
        assert reader.coherent().matrix("processes", "cpu_ratio").entities == ["process 1", "process 2"]


def test_garbage_in_the_stream_changes_nothing(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    source = Source(cluster, "web1")
    with SnapshotReader(shards.connect(), clock=lambda: START + 2.9) as reader:
        source.send_table()
        cluster.call(keys.raw(source.feeder.tag), "XADD", keys.raw(source.feeder.tag), "*", "f", b"no frame")
        source.send(1, samples(1))
        turn_until(worker, lambda: [b.state for b in reader.coherent().blocks] == [CURRENT])
        assert reader.coherent().totals.applied == 6
