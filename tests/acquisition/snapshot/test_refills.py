"""A reader that has never seen a host cannot miss it: it is told that partitions have lost what they held."""

from __future__ import annotations

import os
import signal

import pytest

from acquisition.link.layouts import read_layout
from acquisition.link.resp import Connection
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.visibility.roster import KEPT, LOST
from acquisition.wire import keys
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.fixture_types import StartCluster
from tests.support.scene import Scene
from tests.support.waiting import eventually

NOW = 1_000_000.75
TICK = 999_999
HOSTS = [f"host{i}" for i in range(12)]


@pytest.fixture
def two(start_cluster: StartCluster) -> Shards:
    """Two shards with hosts on both."""
    shards = start_cluster(2)
    scene = Scene(shards.connect())
    for host in HOSTS:
        scene.host(host, [TICK])
    return shards


def told(shards: Shards, now: float = NOW) -> bool:
    """Whether a new reader says so."""
    with SnapshotReader(shards.connect(), clock=lambda: now) as reader:
        return str(LOST) in reader.coherent().errors


def empty(shards: Shards) -> Scene:
    """Empty one shard."""
    cluster = shards.connect()
    address = shards.addresses[1]
    connection = Connection(address, timeout=60.0)
    connection.call("FLUSHALL")
    connection.close()
    return Scene(cluster)


def test_a_new_reader_is_told_of_a_shard_that_came_back_empty(two: Shards) -> None:
    assert not told(two)
    scene = empty(two)
    assert told(two)
    scene.host(HOSTS[0], [TICK])
    assert told(two), "the others may be missing yet"
    for tag in scene.tags:
        scene.cluster.call(keys.began(tag), "SET", keys.began(tag), int(1000 * NOW), "NX")
    assert told(two, NOW + KEPT / 2)
    assert not told(two, NOW + 2 * KEPT)


def test_a_reader_that_began_while_a_shard_was_gone_is_told_too(two: Shards) -> None:
    emptied = two.shards[1]
    os.kill(emptied.pid, signal.SIGKILL)
    with SnapshotReader(two.connect(), clock=lambda: NOW) as reader:
        assert str(LOST) not in eventually(lambda: reader.coherent().errors)
        two.revive()
        eventually(lambda: str(LOST) in reader.coherent().errors)


def test_a_reader_that_has_not_looked_for_a_while_is_told_too(two: Shards) -> None:
    now = [NOW]
    with SnapshotReader(two.connect(), clock=lambda: now[0]) as reader:
        assert str(LOST) not in reader.coherent().errors
        empty(two)
        now[0] += 2 * KEPT
        assert str(LOST) in reader.coherent().errors


def test_the_filter_notes_when_it_has_found_nothing(two: Shards) -> None:
    cluster = two.connect()
    tags = read_layout(cluster).tags
    worker = lone_worker(cluster, read_layout(cluster), FilterSettings())

    def began() -> set[bytes]:
        worker.turn(0.05)
        return {cluster.call(keys.began(tag), "GET", keys.began(tag)) for tag in tags}

    def whole() -> bool:
        """Whether the loss of any partition can be noticed: each has been committed."""
        worker.turn(0.05)
        return worker.settled and all(cluster.call(keys.commit(tag), "EXISTS", keys.commit(tag)) for tag in tags)

    eventually(whole)
    assert began() == {b"0"}
    empty(two)
    eventually(lambda: None not in began())
    found = {int(value) > 0 for value in began()}
    assert found == {True, False}, "as many as were emptied"
    worker.close()
