"""A survey of hosts whose records lie side by side is the same as of each record read under its own key."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import pytest

from acquisition.config.decisions import Decisions
from acquisition.link.cluster import Cluster
from acquisition.model import codes
from acquisition.model.identity import host_id
from acquisition.model.metric import HOST_SET
from acquisition.shards.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.survey import Survey
from acquisition.wire import keys
from filters.decisions.method import method_of
from filters.decisions.picture import CPU
from filters.decisions.verdict import Outcome
from filters.judging.hot_list import hot_list
from filters.worker.worker import Worker
from tests.filters.judging.test_hot_list import everyone, look, newest, told
from tests.support.data_center import HOST_METRICS, KEEP_TICKS, Guest, Machine, run, smooth, smoothing
from tests.support.waiting import eventually

PARTITION = 5
BUSY = (0.1, 0.5, 0.97, 0.3)


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[Worker]:
    with smoothing(cluster) as worker:
        yield worker


def neighbours(cluster: Cluster, number: int) -> list[Machine]:
    """Hosts of one partition, some of which have invalid samples."""
    names = (f"h{number}" for number in count())
    here = (name for name in names if keys.partition_of(host_id(name), keys.DEFAULT_PARTITIONS) == PARTITION)
    machines = [Machine(cluster, name, [Guest(f"v-{name}", 1.0, 4)]) for name in islice(here, number)]
    for at, machine in enumerate(machines):
        machine.busy = BUSY[at % len(BUSY)]
        machine.codes = np.zeros((1, len(HOST_METRICS)), np.uint8)
        machine.codes[0, 4] = codes.RANGE if at % 5 == 3 else codes.VALID
    return machines


def run_together(
    cluster: Cluster, worker: Worker, machines: list[Machine], punctual: list[Machine] | None = None
) -> int:
    """``run`` while somebody asks, and a tick of all machines, or of some, at once; answers that."""
    key = keys.sought(keys.tags(keys.DEFAULT_PARTITIONS)[PARTITION])
    cluster.call(key, "SET", key, "1", "EX", "600")
    tick = run(worker, machines) + 1
    for machine in punctual or machines:
        machine.send(tick + 0.5)
    smooth(worker, punctual or machines, tick)
    return tick


def settle(cluster: Cluster, worker: Worker, machines: list[Machine], tick: int) -> str:
    """Have a tick written side by side, while guests go on, and kept; answers its key."""
    key = keys.hosts(keys.tags(keys.DEFAULT_PARTITIONS)[PARTITION], tick % KEEP_TICKS)
    first, own = machines[0], machines[0].sends_host
    first.sends_host = False
    walls = count(tick + 1)

    def go_on() -> None:
        first.send(next(walls) + 0.5)
        worker.turn(0.05)

    eventually(lambda: cluster.call(key, "PERSIST", key), meanwhile=go_on)
    first.sends_host = own
    return key


def alone(shards: Shards, cluster: Cluster, key: str, tick: int) -> Survey:
    """What a reader finds that knows of nothing side by side."""
    value = cluster.call(key, "GET", key)
    cluster.call(key, "DEL", key)
    with look(shards, tick) as reader:
        survey = reader.survey(HOST_SET)
    if value is not None:
        cluster.call(key, "SET", key, value)
    return survey


def assert_same(one: Survey, other: Survey) -> None:
    assert (one.hosts == other.hosts).all()
    assert (one.taken.answered == other.taken.answered).all()
    assert [one.taken.records[row] for row in range(len(one.hosts))] == [
        other.taken.records[row] for row in range(len(other.hosts))
    ]
    for metric in (CPU, "memory_used_ratio", "no_such_metric"):
        for found, expected in zip(one.column(metric), other.column(metric), strict=True):
            np.testing.assert_equal(found, expected)


def read(reader: SnapshotReader) -> Survey:
    """The survey of a reader that has learnt that records lie side by side."""
    for _ in range(2):
        reader.survey(HOST_SET)
    return reader.survey(HOST_SET)


def test_records_side_by_side_are_those_of_the_hosts(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    machines, method = neighbours(cluster, 13), method_of(Decisions())
    *punctual, late, silent = machines
    tick = run_together(cluster, worker, machines, punctual)
    key = settle(cluster, worker, punctual, tick)
    with look(shards, tick) as reader:
        assert_same(read(reader), alone(shards, cluster, key, tick))
        assert told(hot_list(reader, Decisions(), method)) == told(everyone(reader, method))
        late.send(tick + 0.7)
        smooth(worker, [late], tick)
        found = reader.survey(HOST_SET)
        assert_same(found, alone(shards, cluster, key, tick))
        assert found.column(CPU).known[found.hosts == int(late.id, 16)].all()
        assert not found.column(CPU).known[found.hosts == int(silent.id, 16)].any()
        listed = hot_list(reader, Decisions(), method)
        assert told(listed) == told(everyone(reader, method))
        assert any(verdict.outcome == Outcome.HOT for verdict in listed.heat.verdicts.values())


def test_a_second_sample_of_a_tick_and_another_epoch_are_seen(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    machines, method = neighbours(cluster, 10), method_of(Decisions())
    tick = run_together(cluster, worker, machines)
    key = settle(cluster, worker, machines, tick)
    with look(shards, tick) as reader:
        before = read(reader)
        machines[1].busy = 0.77
        machines[1].send(tick + 0.9)
        eventually(lambda: not cluster.call(key, "STRLEN", key), meanwhile=lambda: worker.turn(0.02))
        found = reader.survey(HOST_SET)
        assert_same(found, alone(shards, cluster, key, tick))
        changed = found.hosts[~np.equal(found.column(CPU).mean, before.column(CPU).mean)]
        assert changed.tolist() == [int(machines[1].id, 16)]
        machines[2].restart(tick + 1.5)
        machines[2].send(tick + 1.6)
        smooth(worker, machines[2:3], tick + 1)
        assert_same(reader.survey(HOST_SET), alone(shards, cluster, key, tick))
        assert told(hot_list(reader, Decisions(), method)) == told(newest(reader, method, frozenset()))


def test_what_is_none_says_nothing(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    machines = neighbours(cluster, 10)
    tick = run_together(cluster, worker, machines)
    key = settle(cluster, worker, machines, tick)
    expected = alone(shards, cluster, key, tick)
    value = cluster.call(key, "GET", key)
    with look(shards, tick) as reader:
        for damaged in (value[:-1], b"", b"SPHR", value + b"x", b"SPHR" + bytes(4)):
            cluster.call(key, "SET", key, damaged)
            assert_same(read(reader), expected)


def test_a_reader_says_that_it_asks(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    tick = run(worker, neighbours(cluster, 9))
    with look(shards, tick) as reader:
        reader.survey(HOST_SET)
    tags = keys.tags(keys.DEFAULT_PARTITIONS)
    told = [number for number, tag in enumerate(tags) if cluster.call(keys.sought(tag), "PTTL", keys.sought(tag)) > 0]
    assert told == [PARTITION]
