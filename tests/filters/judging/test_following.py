"""Who follows what commits change finds what one finds who has just come, and reads everything only where it must."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from acquisition.config.decisions import Decisions
from acquisition.link.batch import Batch
from acquisition.link.cluster import Cluster
from acquisition.model import codes
from acquisition.model.metric import HOST_SET
from acquisition.shards.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.survey import Survey
from acquisition.wire import changes, keys
from filters.decisions.method import method_of
from filters.decisions.picture import CPU
from filters.judging.hot_list import hot_list
from filters.judging.last_verdicts import LastVerdicts
from filters.worker.worker import Worker
from tests.filters.judging.test_hot_list import center, told
from tests.support.data_center import HOST_METRICS, Guest, Machine, run, smooth, smoothing
from tests.support.waiting import PATIENCE, eventually

ENOUGH = 24  #: readings that follow
TAGS = keys.tags(keys.DEFAULT_PARTITIONS)


class Asked(Cluster):
    """A cluster that counts the readings of all positions of a partition."""

    whole = 0

    def ask(self, batch: Batch) -> list[Any]:
        self.whole += sum("HGETALL" in words for _, words in batch.commands if not isinstance(words, bytes))
        return super().ask(batch)

    def ask_raw(self, batch: Batch) -> list[memoryview] | None:
        self.whole += sum("HGETALL" in words for _, words in batch.commands if not isinstance(words, bytes))
        return super().ask_raw(batch)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[Worker]:
    with smoothing(cluster) as worker:
        yield worker


def assert_same(one: Survey, other: Survey) -> None:
    assert one.hosts.tolist() == other.hosts.tolist()
    assert one.sound.tolist() == other.sound.tolist()
    assert one.tick == other.tick
    for metric in (CPU, "memory_used_ratio", "no_such_metric"):
        for found, expected in zip(one.column(metric), other.column(metric), strict=True):
            np.testing.assert_equal(found, expected)


def stir(cluster: Cluster, machines: list[Machine], chance: random.Random, tick: int) -> list[Machine]:
    """Something happens in the data center; answers who samples."""
    what = chance.randrange(12)
    one = chance.choice(machines)
    if what == 0:
        one.restart(tick + 0.05)
    elif what == 1:
        one.codes = np.zeros((1, len(HOST_METRICS)), np.uint8)
        one.codes[0, chance.randrange(len(HOST_METRICS))] = chance.choice([codes.RANGE, codes.VALID])
    elif what == 2 and len(machines) < 30:
        machines.append(Machine(cluster, f"new{len(machines)}", [Guest(f"w{len(machines)}", 1.0, 4)]))
        machines[-1].busy = 0.97
        machines[-1].send_tables(tick + 0.05)
    elif what == 3:
        key = keys.changes(chance.choice(TAGS))
        cluster.call(key, "XTRIM", key, "MAXLEN", "0")
    for machine in machines:
        machine.busy = chance.choice([0.2, 0.97, machine.busy, machine.busy])
    return [machine for machine in machines if chance.random() < 0.9]


def test_who_follows_finds_what_others_find(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    chance, method, clock, last = random.Random(7), method_of(Decisions()), Clock(), LastVerdicts()
    machines = center(cluster, chance)
    tick, followed, hot = run(worker, machines, ahead=-60), 0, frozenset[str]()
    deadline = time.monotonic() + 6 * PATIENCE
    with SnapshotReader(asked := Asked(shards.addresses), clock=clock) as often:
        while followed < ENOUGH:
            assert time.monotonic() < deadline, followed
            tick += 1
            sampling = stir(cluster, machines, chance, tick)
            for part in range(2):
                some = sampling[part::2]
                for machine in some:
                    machine.send(tick + 0.1 + part / 2)
                smooth(worker, some, tick)
                clock.now, asked.whole = tick + 0.2 + part / 2, 0
                found = hot_list(often, Decisions(), method, hot, last)
                followed += not asked.whole
                with SnapshotReader(shards.connect(), clock=clock) as new:
                    assert told(found) == told(hot_list(new, Decisions(), method, hot))
                    assert_same(often.survey(HOST_SET, newest=True), new.survey(HOST_SET, newest=True))
                hot = found.heat.hot


def test_what_was_found_before_stays_as_it_was(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    machines, clock = center(cluster, random.Random(2)), Clock()
    tick = run(worker, machines, ahead=-60)
    with SnapshotReader(asked := Asked(shards.addresses), clock=clock) as often:

        def go_on() -> Survey:
            nonlocal tick
            tick += 1
            for machine in machines:
                machine.busy = 1.0 - machine.busy
                machine.send(tick + 0.1)
            smooth(worker, machines, tick)
            clock.now, asked.whole = tick + 0.2, 0
            return often.survey(HOST_SET, newest=True)

        surveys = [go_on()]
        eventually(lambda: not asked.whole, 3 * PATIENCE, meanwhile=lambda: surveys.append(go_on()))
        before = surveys[-1]
        seen = before.column(CPU).mean.copy(), [before.taken.records[at] for at in range(len(before.hosts))]
        after = go_on()
        np.testing.assert_equal(before.column(CPU).mean, seen[0])
        assert [before.taken.records[at] for at in range(len(before.hosts))] == seen[1]
        assert (after.column(CPU).mean != seen[0]).sum() > 12


def test_nothing_is_told_while_nobody_follows(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    machines = center(cluster, random.Random(3))
    tick = run(worker, machines, ahead=-60)
    tags = sorted({TAGS[keys.partition_of(int(machine.id, 16), len(TAGS))] for machine in machines})

    def told_of() -> int:
        nonlocal tick
        tick += 1
        for machine in machines:
            machine.send(tick + 0.5)
        smooth(worker, machines, tick)
        return sum(cluster.call(keys.changes(tag), "XLEN", keys.changes(tag)) > 0 for tag in tags)

    assert told_of() == 0
    for tag in tags:
        cluster.call(keys.sought(tag), "SET", keys.sought(tag), changes.FOLLOWED, "EX", "600")
    eventually(lambda: told_of() == len(tags), 3 * PATIENCE)
    for tag in tags:
        assert cluster.call(keys.changes(tag), "TTL", keys.changes(tag)) > 0
        cluster.call(keys.sought(tag), "DEL", keys.sought(tag))
        cluster.call(keys.sought(tag), "RPUSH", keys.sought(tag), "of another type")
    eventually(lambda: told_of() == 0, 3 * PATIENCE)
