"""A shard at its memory limit: commits and leases of the filter work all the same.

One that fills while it is used is in tests/acquisition/shards/test_servers.py.
"""

from __future__ import annotations

from collections.abc import Callable

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import pack
from acquisition.shards.servers.launch import Shards
from acquisition.wire import keys
from filters import kernels
from filters.worker.loop.assembly import leasing_worker
from filters.worker.loop.leases import new_holder
from filters.worker.partitions.partition import Partition, script
from filters.worker.partitions.restore import restore
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import turn_until
from tests.support.feeder import Feeder
from tests.support.series import applied_sequence, assert_equals_model, feed


def test_commits_and_leases_work_without_free_memory(start_cluster: Callable[..., Shards]) -> None:
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
        entries = cluster.call(name, "XRANGE", name, "-", "+") or [(b"5-5", [b"f", b"garbage"])]
        with partition.batch(entries) as batch:
            pieces, replies = partition.commit(batch, full=True)
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
    connection.send(script(tag, b"", b"0-1", pack(("HSET", applied, *fields))))
    assert [connection.receive(), connection.receive()] == [b"OK", 1]
    assert connection.call("HLEN", applied) == total
    assert connection.call("HGET", applied, "field 2345") == b"value 2345"
    connection.close()
