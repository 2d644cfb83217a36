"""A shard at its memory limit: the filter makes room by itself, loses nothing, and smooths on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from acquisition.errors import TemporaryError
from acquisition.link.cluster import Cluster, read_layout
from acquisition.link.resp import pack
from acquisition.shards.launch import Shards
from acquisition.wire import keys
from filters import kernels
from filters.worker import oom_commit
from filters.worker.assembly import leasing_worker, lone_worker
from filters.worker.leases.leases import new_holder
from filters.worker.partition import Partition
from filters.worker.restore import restore
from filters.worker.settings import FilterSettings
from tests.support.applied import turn_until
from tests.support.feeder import Feeder
from tests.support.series import applied_sequence, assert_equals_model, feed, frame


def fill(cluster: Cluster, room: int) -> Feeder:
    """Leave ``room`` bytes, and push large frames until the shard refuses one."""
    admin = cluster.connect(cluster.masters()[0])
    used = int(admin.call("INFO", "memory").partition(b"used_memory:")[2].partition(b"\r")[0])
    admin.call("CONFIG", "SET", "maxmemory", used + room)
    admin.close()
    large = Feeder(cluster, host=7 + keys.DEFAULT_PARTITIONS)
    rng = np.random.default_rng(1)
    for tick in range(1, 1000):
        data = large.make(rng.random((400, 20)), float(tick))
        try:
            large.push(data)
        except TemporaryError:
            return large
    raise AssertionError("the shard is never full")


def test_a_full_shard_is_emptied_by_the_commits_themselves(start_cluster: Callable[..., Shards]) -> None:
    cluster = start_cluster(1).connect()
    feeder = Feeder(cluster)
    worker = lone_worker(cluster, read_layout(cluster), FilterSettings(retention_seconds=3600.0), report=lambda _: None)
    feed(feeder, 1, 3)
    turn_until(worker, lambda: applied_sequence(cluster, feeder) == 3)
    feed(feeder, 4, 6)
    large = fill(cluster, 3 << 20)
    refused = frame(feeder, 7)
    key = keys.raw(feeder.tag)
    assert cluster.call(key, "XLEN", key) > 10
    turn_until(worker, lambda: applied_sequence(cluster, feeder) == 6)
    turn_until(worker, lambda: applied_sequence(cluster, large) == large.sequence - 1)
    assert worker.counters["errors"] > 0
    feeder.push(refused)  # there is room again, nobody helped
    feed(feeder, 8, 9)
    turn_until(worker, lambda: applied_sequence(cluster, feeder) == 9)
    assert_equals_model(cluster, feeder, 9)
    worker.close()
    cluster.close()


def test_commits_and_leases_work_where_nothing_at_all_can_be_allocated(start_cluster: Callable[..., Shards]) -> None:
    """maxmemory of one byte: everything that comes out of this state comes from scripts that free first."""
    cluster = start_cluster(1).connect()
    layout = read_layout(cluster)
    feeder = Feeder(cluster)
    feed(feeder, 1, 5)
    cluster.call(keys.raw(feeder.tag), "CONFIG", "SET", "maxmemory", 1)
    worker, leases, *_ = leasing_worker(cluster, layout, FilterSettings(), new_holder(1.0), lambda _: None)
    turn_until(worker, lambda: len(worker.partitions) == layout.partitions, between=leases.turn)
    turn_until(worker, lambda: applied_sequence(cluster, feeder) == 5, between=leases.turn)
    assert_equals_model(cluster, feeder, 5)
    worker.close()
    leases.leave()
    assert not cluster.call(keys.raw(feeder.tag), "EXISTS", keys.lease(feeder.tag), keys.workers(feeder.tag))
    cluster.close()


def test_a_commit_by_script_is_refused_to_the_overtaken(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    feeder = Feeder(cluster)
    feed(feeder, 1, 2)
    number = keys.partition_of(feeder.host, layout.partitions)
    name, commit = keys.raw(feeder.tag), keys.commit(feeder.tag)
    connection = cluster.connect(cluster.owner(name))
    first, second = (Partition(number, feeder.tag, layout.partitions, FilterSettings()) for _ in range(2))
    for partition, answer in ((first, 1), (second, None)):
        restore(partition, connection, kernels.select(FilterSettings().kernels))
        partition.commit_id = b""  # both loaded before anything was committed
        partition.take(cluster.call(name, "XRANGE", name, "-", "+") or [(b"5-5", [b"f", b"garbage"])])
        pieces, replies = partition.commit(full=True)
        connection.send(b"".join(pieces))
        assert [connection.receive() for _ in range(replies)] == [b"OK", answer]
    connection.close()
    assert cluster.call(commit, "GET", commit).startswith(first.commit_id)
    assert cluster.call(name, "XLEN", name) == 0
    assert not cluster.call(commit, "EXISTS", keys.rejected(feeder.tag))


def test_positions_of_thousands_of_hosts_fit_into_a_script(cluster: Cluster) -> None:
    tag, total = keys.tags(keys.DEFAULT_PARTITIONS)[0], 5000
    applied = keys.applied(tag)
    fields = [text for n in range(total) for text in (f"field {n}", f"value {n}")]
    connection = cluster.connect(cluster.owner(applied))
    connection.send(oom_commit.script(tag, b"", b"0-1", pack(("HSET", applied, *fields))))
    assert [connection.receive(), connection.receive()] == [b"OK", 1]
    assert connection.call("HLEN", applied) == total
    assert connection.call("HGET", applied, "field 2345") == b"value 2345"
    connection.close()
