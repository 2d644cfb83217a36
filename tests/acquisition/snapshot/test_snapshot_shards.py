"""Snapshots while shards move partitions, die, hang and come back."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing

import pytest

from acquisition.errors import ShardError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import write_layout
from acquisition.link.resp import Address, Connection
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.values.states import CURRENT, SHARD, UNKNOWN
from acquisition.wire import keys
from acquisition.wire.keys import DEFAULT_PARTITIONS
from tests.support.fixture_types import StartCluster
from tests.support.moving_slot import Move
from tests.support.scene import Scene
from tests.support.waiting import PATIENCE, eventually

NOW = 1_000_000.75
TICK = 999_999
HOSTS = [f"host{i}" for i in range(12)]


def states(snapshot: Snapshot) -> dict[str, str]:
    return {block.host: block.state for block in snapshot.blocks}


@pytest.fixture
def two(start_cluster: StartCluster) -> Shards:
    return start_cluster(2)


def test_a_partition_that_moves_stays_readable_at_every_step(two: Shards) -> None:
    cluster = two.connect()
    scene = Scene(cluster)
    for host in HOSTS:
        scene.host(host, [TICK - 1, TICK, TICK + 1])
    scene.host(HOSTS[0], [TICK - 1, TICK, TICK + 1], resource_set="host", names=[HOSTS[0]])
    with SnapshotReader(two.connect(), clock=lambda: NOW) as reader:
        assert set(states(reader.coherent()).values()) == {CURRENT}
        move = Move(two, scene.tag(host_id(HOSTS[0])))
        names = move.begin()
        assert states(reader.coherent()) == dict.fromkeys(HOSTS, CURRENT)
        for i in range(len(names)):  # ASK, and TRYAGAIN while the keys of one MGET are on both sides
            move.carry(names[i : i + 1])
            snapshot = reader.coherent()
            assert (states(snapshot), snapshot.errors) == (dict.fromkeys(HOSTS, CURRENT), ()), names[i]
            assert states(reader.latest()) == dict.fromkeys(HOSTS, CURRENT)
        move.finish()  # MOVED from here on
        snapshot = reader.coherent()
        assert (states(snapshot), snapshot.errors) == (dict.fromkeys(HOSTS, CURRENT), ())
        assert len(list(snapshot.rows())) == len(HOSTS) * 4 + 2
    with SnapshotReader(cluster, clock=lambda: NOW) as late_comer:
        assert states(late_comer.coherent()) == dict.fromkeys(HOSTS, CURRENT)


def test_hosts_of_a_dead_shard_are_unknown_and_others_are_not(two: Shards) -> None:
    scene = Scene(two.connect())
    for host in HOSTS:
        scene.host(host, [TICK])
    owners = {host: scene.cluster.owner(keys.applied(scene.tag(host_id(host)))) for host in HOSTS}
    dead = two.shards[0]
    assert len(set(owners.values())) == 2
    now = [NOW]
    with SnapshotReader(two.connect(), clock=lambda: now[0]) as reader:
        reader.coherent()
        os.kill(dead.pid, signal.SIGKILL)
        wait_dead(dead.address)
        now[0] = NOW + 0.5
        for _ in range(3):
            snapshot = reader.coherent()
            expected = {host: UNKNOWN if owner == dead.address else CURRENT for host, owner in owners.items()}
            assert states(snapshot) == expected
            assert any(str(dead.address) in error for error in snapshot.errors)
            assert len(list(snapshot.rows())) == len(HOSTS) * 4
        now[0] = NOW + 1000.0
        lost = [block for block in reader.coherent().blocks if owners[block.host] == dead.address]
        assert {(block.state, block.cause) for block in lost} == {(UNKNOWN, SHARD)}, (
            "nothing is known about them, so they are not called down"
        )
        assert {block.unreachable for block in lost} == {True}


def wait_dead(address: Address) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            Connection(address, timeout=0.5).close()
        except ShardError:
            return
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_shard_that_hangs_costs_one_timeout_and_recovers(two: Shards) -> None:
    scene = Scene(two.connect())
    for host in HOSTS:
        scene.host(host, [TICK])
    hung = two.shards[1]
    timeout = 2.0
    with SnapshotReader(two.connect(timeout), clock=lambda: NOW) as reader:
        reader.coherent()
        os.kill(hung.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            snapshot = reader.coherent()
            assert timeout <= time.monotonic() - began < 2 * timeout
            assert any("timed out" in error for error in snapshot.errors)
            assert set(states(snapshot).values()) == {CURRENT, UNKNOWN}
        finally:
            os.kill(hung.pid, signal.SIGCONT)
        eventually(lambda: set(states(reader.coherent()).values()) == {CURRENT})


def test_emptied_shards_are_not_calm(two: Shards) -> None:
    cluster: Cluster = two.connect()
    scene = Scene(cluster)
    scene.host("host1", [TICK])
    with SnapshotReader(two.connect(), clock=lambda: NOW) as reader:
        assert states(reader.coherent()) == {"host1": CURRENT}
        for address in two.addresses:
            with closing(Connection(address)) as connection:
                connection.call("FLUSHALL")
        assert "no host is visible" in reader.coherent().blind
        write_layout(cluster, DEFAULT_PARTITIONS)
        scene.host("host1", [TICK])
        assert states(reader.coherent()) == {"host1": CURRENT}
    cluster.close()


def test_refusal_in_one_partition_affects_only_its_hosts(two: Shards) -> None:
    scene = Scene(two.connect())
    scene.host("host1", [TICK])
    with SnapshotReader(two.connect(), clock=lambda: NOW) as reader:
        reader.coherent()
        for address in two.addresses:
            with closing(Connection(address)) as connection:
                connection.call("ACL", "SETUSER", "default", "-hgetall")
        scene.host("host1", [TICK + 1])  # what has not changed is not asked for again
        snapshot = reader.coherent()
        assert [(block.state, block.cause) for block in snapshot.blocks] == [(UNKNOWN, SHARD)]
        assert any("NOPERM" in error and "asked: HGETALL applied:{*}" in error for error in snapshot.errors)


def test_the_set_name_is_known_from_other_hosts(two: Shards) -> None:
    scene = Scene(two.connect())
    scene.host("host1", [TICK])
    scene.host("host2", [TICK])
    key = keys.names(scene.tag(host_id("host2")), host_id("host2"), resource_set_id("processes"))
    scene.put(key, "DEL", key)
    with SnapshotReader(two.connect(), clock=lambda: NOW) as reader:
        assert {block.resource_set for block in reader.coherent().blocks} == {"processes"}


def test_hosts_of_a_shard_that_came_back_empty_stay_in_sight(two: Shards) -> None:
    scene = Scene(two.connect())
    for host in HOSTS:
        scene.host(host, [TICK])
    emptied = two.shards[0].address
    lost = {host for host in HOSTS if scene.cluster.owner(keys.applied(scene.tag(host_id(host)))) == emptied}
    now = [NOW]
    with SnapshotReader(two.connect(), clock=lambda: now[0]) as reader:
        reader.coherent()
        connection = Connection(emptied, timeout=PATIENCE)
        connection.call("FLUSHALL")
        connection.close()
        for _ in range(2):
            now[0] += 0.25
            for snapshot in (reader.coherent(), reader.latest()):
                assert {
                    block.host: (block.state, block.cause) for block in snapshot.blocks if block.state != CURRENT
                } == dict.fromkeys(lost, (UNKNOWN, SHARD))
                assert "shards have just lost their data about hosts" in snapshot.errors
        for host in HOSTS:
            scene.host(host, [TICK, TICK + 1])
        now[0] += 0.5
        snapshot = reader.coherent()
        assert (states(snapshot), snapshot.errors) == (dict.fromkeys(HOSTS, CURRENT), ())
        connection = Connection(emptied, timeout=PATIENCE)
        connection.call("FLUSHALL")
        connection.close()
        assert len(states(reader.coherent())) == len(HOSTS)
        now[0] += 100.0
        assert states(reader.coherent()).keys() == set(HOSTS) - lost, "who never comes back was not there"
