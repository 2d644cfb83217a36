"""Two workers that both believe they own a partition write nothing stale: leases are no part of safety.

Here are no leases at all. Workers are turned by hand, so that one sleeps while the other works, with
entries and replies waiting in its sockets, as a process under SIGSTOP.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Address
from acquisition.shards.servers import process as shard_process
from acquisition.shards.servers.launch import Shards
from acquisition.shards.servers.machine import free_ports, port_is_free
from acquisition.shards.topology import join
from acquisition.wire import keys
from filters.worker.loop.assembly import lone_worker
from filters.worker.loop.worker import Worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import position_of
from tests.support.feeder import Feeder
from tests.support.series import applied_sequence, assert_equals_model, feed
from tests.support.waiting import PATIENCE, eventually


class Pair:
    """Two workers, each convinced that all partitions are its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.layout = read_layout(cluster)
        self.workers = [self._worker(), self._worker()]

    def _worker(self) -> Worker:
        return lone_worker(self.cluster, self.layout, FilterSettings(), report=lambda _: None)

    def until(self, feeder: Feeder, sequence: int, *workers: Worker, seconds: float = PATIENCE) -> None:
        """Turn these workers in turn until a frame is applied; the others sleep."""
        eventually(
            lambda: applied_sequence(self.cluster, feeder) >= sequence,
            seconds,
            meanwhile=lambda: [worker.turn(0.02) for worker in workers],
        )

    def settle(self, turns: int = 20) -> None:
        """Let both do what they have in mind."""
        for _ in range(turns):
            for worker in self.workers:
                worker.turn(0.01)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


@pytest.fixture
def pair(cluster: Cluster) -> Iterator[Pair]:
    pair = Pair(cluster)
    yield pair
    pair.close()


def books(cluster: Cluster, feeder: Feeder) -> tuple[int, int]:
    """Frames applied, and samples lost."""
    found = position_of(cluster, feeder.host, feeder.resource_set)
    assert found is not None
    return found.frames, found.lost


@pytest.mark.parametrize("seed", range(2))
def test_two_owners_that_alternate_at_random(pair: Pair, seed: int) -> None:
    choice = random.Random(seed)
    feeder = Feeder(pair.cluster)
    last = 40
    for tick in range(1, last + 1):
        feed(feeder, tick, tick)
        for _ in range(choice.randrange(4)):
            choice.choice(pair.workers).turn(0.005)
    pair.until(feeder, last, *pair.workers)
    pair.settle()
    assert books(pair.cluster, feeder) == (last, 0)
    assert_equals_model(pair.cluster, feeder, last)
    assert sum(worker.overtaken for worker in pair.workers) > 0


def test_a_commit_that_goes_back_under_living_connections(pair: Pair) -> None:
    """A shard that answers from an older state than it had told: as after a failover, but nobody hangs up."""
    one, two = pair.workers
    feeder = Feeder(pair.cluster)
    feed(feeder, 1, 3)
    pair.until(feeder, 3, one)
    older = dump(pair.cluster, feeder)
    later = feed(feeder, 4, 6)
    pair.until(feeder, 6, one)
    feed(feeder, 7, 7)
    time.sleep(0.05)  # its entry waits in the socket of the first one, which sleeps
    restore(pair.cluster, feeder, older)
    assert applied_sequence(pair.cluster, feeder) == 3
    for data in later:  # the probe goes back to what is applied
        feeder.push(data)
    one.turn(0.05)
    assert applied_sequence(pair.cluster, feeder) <= 6
    pair.until(feeder, 6, two)
    feeder.sequence, feeder.made = 6, 6 * 12
    feed(feeder, 7, 9)
    pair.until(feeder, 9, one, two)
    pair.settle()
    assert books(pair.cluster, feeder) == (9, 0)
    assert_equals_model(pair.cluster, feeder, 9)


@pytest.mark.parametrize("first", [0, 1], ids=["who was ahead wakes first", "who slept takes over"])
def test_a_failover_that_lost_the_last_commit(start_cluster: Callable[..., Shards], tmp_path: Path, first: int) -> None:
    running = start_cluster(1)
    master = running.addresses[0]
    replica = add_replica(running, tmp_path / "replica")
    cluster = Cluster([master, replica])
    pair = Pair(cluster)
    ahead, feeder = pair.workers[0], Feeder(cluster)
    feed(feeder, 1, 3)
    pair.until(feeder, 3, ahead)
    pair.settle()  # both have the state of frame 3 now
    cut_replication(cluster, master, replica)
    later = feed(feeder, 4, 6)
    pair.until(feeder, 6, ahead)  # committed and told, and never replicated
    kill_and_promote(running, cluster, master, replica)
    assert applied_sequence(cluster, feeder) == 3
    for data in later:
        feeder.push(data)
    pair.until(feeder, 6, pair.workers[first])
    feed(feeder, 7, 9)
    pair.until(feeder, 9, pair.workers[1 - first])
    pair.settle()
    assert books(cluster, feeder) == (9, 0)
    assert_equals_model(cluster, feeder, 9)
    pair.close()
    cluster.close()


def dump(cluster: Cluster, feeder: Feeder) -> dict[bytes, bytes]:
    """All keys of a feeder's partition."""
    name = keys.raw(feeder.tag)
    found = cluster.call(name, "CLUSTER", "GETKEYSINSLOT", keys.slot_of(name), 1000)
    return {key: cluster.call(name, "DUMP", key) for key in found}


def restore(cluster: Cluster, feeder: Feeder, older: dict[bytes, bytes]) -> None:
    """Put an older state in the place of the present one."""
    name = keys.raw(feeder.tag)
    cluster.call(name, "DEL", *cluster.call(name, "CLUSTER", "GETKEYSINSLOT", keys.slot_of(name), 1000))
    for key, value in older.items():
        cluster.call(name, "RESTORE", key, 0, value)


def add_replica(running: Shards, home: Path) -> Address:
    """One more redis-server, in sync with the only master."""
    address = Address("127.0.0.1", free_ports(1)[0])
    shard_process.configure(running.redis, address, 0, home, 64 << 20, {})
    running.start(address, 0, home)
    eventually(lambda: not (port_is_free(address.port)))
    join.replicate(address, running.addresses[0])
    return address


def cut_replication(cluster: Cluster, master: Address, replica: Address) -> None:
    """The replica hears nothing more; connections of others that exist go on."""
    here, there = cluster.connect(master), cluster.connect(replica)
    here.call("SET", "marker", "everything before this is replicated")
    assert here.call("WAIT", 1, 5000) == 1
    here.call("CONFIG", "SET", "requirepass", "unknown to the replica")
    here.call("CLIENT", "KILL", "TYPE", "replica")
    eventually(lambda: b"master_link_status:up" not in there.call("INFO", "replication"))
    here.close()
    there.close()


def kill_and_promote(running: Shards, cluster: Cluster, master: Address, replica: Address) -> None:
    """kill -9 of the master; its replica, which is older, takes its slots."""
    shard = next(shard for shard in running.alive if shard.address == master)
    os.kill(shard.pid, signal.SIGKILL)
    connection = cluster.connect(replica)
    connection.call("CLUSTER", "FAILOVER", "TAKEOVER")
    eventually(lambda: b"role:master" in connection.call("INFO", "replication"))
    connection.close()
    cluster.refresh()
