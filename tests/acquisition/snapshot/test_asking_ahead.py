"""A reader that reads again waits for the shards once, and never takes an answer to another question."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from acquisition.errors import ShardError
from acquisition.link.batch import Batch
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address
from acquisition.shards.launch import Shards
from acquisition.snapshot import SnapshotReader, collector
from acquisition.snapshot.states import CURRENT
from tests.support.scene import Scene

TICK = 999_999


class Counted(Cluster):
    """A cluster that counts the rounds of questions."""

    rounds = 0

    def ask(self, batch: Batch) -> list[Any]:
        self.rounds += 1
        return super().ask(batch)


class Clock:
    now = TICK + 1.75

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reader(shards: Shards, cluster: Cluster, clock: Clock) -> Iterator[SnapshotReader]:
    with SnapshotReader(Counted([Address(*each) for each in shards.addresses]), clock=clock) as reader:
        yield reader


def rounds(reader: SnapshotReader) -> int:
    """How often it asks for one whole reading, in which every host must be current."""
    assert isinstance(reader.cluster, Counted)
    before = reader.cluster.rounds
    assert {block.state for block in reader.coherent().blocks} == {CURRENT}
    return reader.cluster.rounds - before


def test_the_second_reading_asks_once(cluster: Cluster, reader: SnapshotReader, clock: Clock) -> None:
    scene = Scene(cluster)
    for host in ("a", "b", "c"):
        scene.host(host, [TICK, TICK + 1])
    assert rounds(reader) > 1
    assert rounds(reader) == 1
    clock.now += 1.0  # another tick, another slot
    assert rounds(reader) == 1
    scene.host("d", [TICK, TICK + 1])  # who is new is asked for
    assert rounds(reader) > 1
    assert rounds(reader) == 1


def test_collections_go_on_after_a_reading_that_failed() -> None:
    assert gc.isenabled()
    with pytest.raises(ShardError):
        _fail()
    assert gc.isenabled()


@collector.paused()
def _fail() -> None:
    assert not gc.isenabled()
    raise ShardError("no")
