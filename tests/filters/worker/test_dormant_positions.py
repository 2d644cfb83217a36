"""Dormant sets: forgotten as hosts, remembered as counts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.wire import keys
from acquisition.wire.position import WANT_TABLE, Position
from filters.worker.loop.assembly import lone_worker
from filters.worker.loop.worker import Worker
from filters.worker.partitions.dormant_positions import DormantPositions
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.state import State
from tests.support.applied import position_of, turn_until
from tests.support.feeder import Feeder

OTHER = 7 + keys.DEFAULT_PARTITIONS  # a host of the same partition


class Bench:
    """A worker that forgets within a second, and a host that keeps it busy."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.other = Feeder(cluster, host=OTHER)
        self.worker = self.start()

    def start(self) -> Worker:
        settings = FilterSettings(expire_seconds=1.0)
        partition = keys.partition_of(OTHER, keys.DEFAULT_PARTITIONS)
        return lone_worker(self.cluster, read_layout(self.cluster), settings, [partition], report=lambda _: None)

    def restart(self) -> None:
        self.worker.close()
        self.worker = self.start()

    def position(self, feeder: Feeder) -> Position | None:
        return position_of(self.cluster, feeder.host, feeder.resource_set)

    def feed(self, feeder: Feeder, count: int) -> None:
        for _ in range(count):
            tick = feeder.sequence + 1
            feeder.push(feeder.make(np.ones((2, 2)), float(tick)))

    def apply(self, feeder: Feeder, count: int) -> Position:
        self.feed(feeder, count)
        turn_until(
            self.worker, lambda: (found := self.position(feeder)) is not None and found.sequence == feeder.sequence
        )
        found = self.position(feeder)
        assert found is not None
        return found

    def forget(self, feeder: Feeder) -> None:
        def gone() -> bool:
            self.feed(self.other, 1)
            return self.position(feeder) is None

        turn_until(self.worker, gone)


@pytest.fixture
def bench(cluster: Cluster) -> Iterator[Bench]:
    made = Bench(cluster)
    yield made
    made.worker.close()


@pytest.mark.parametrize("restarted", [False, True])
def test_host_that_comes_back_after_a_long_time_goes_on_counting(bench: Bench, restarted: bool) -> None:
    feeder = Feeder(bench.cluster)
    bench.apply(feeder, 3)
    bench.forget(feeder)
    if restarted:
        bench.restart()
    found = bench.apply(feeder, 2)
    assert (found.applied, found.before, found.lost, found.gaps) == (20, 0, 0, 0)
    assert found.flags & WANT_TABLE
    assert not bench.cluster.call(keys.dormant(feeder.tag), "EXISTS", keys.dormant(feeder.tag))


def test_power_failure_longer_than_host_memory_is_a_gap(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    bench.apply(feeder, 3)
    bench.forget(feeder)
    again = Feeder(bench.cluster, epoch=12)
    found = bench.apply(again, 2)
    assert (found.epoch, found.applied, found.gaps) == (12, 8, 1)


def test_foreign_dormant_entries_are_ignored_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    dormant = DormantPositions("0.1")
    state = State("0.1", 7, 3, 3)
    dormant.load([state.member, b"nonsense"])
    assert len(dormant.recall(state)) == 1
    assert state.track.epoch == 0
    assert dormant.keep(state) == []  # there is nothing to remember
    state.track.epoch = 5
    assert len(dormant.keep(state)) == 2
    monkeypatch.setattr("filters.worker.partitions.dormant_positions._MOST", 1)
    other = State("0.1", 8, 3, 3)
    other.track.epoch = 5
    assert [command.split(b"\r\n")[2] for command in dormant.keep(other)] == [b"HDEL", b"HSET", b"EXPIRE"]
    assert dormant.recall(state) == []


def test_one_host_is_remembered_with_so_many_sets() -> None:
    dormant = DormantPositions("0.1", most=2)
    states = [State("0.1", 7, number, 3) for number in range(3)]
    for state in states:
        state.track.epoch = 5
    assert [len(dormant.keep(state)) for state in states] == [2, 2, 0]
