"""Who smooths what, as the shards tell it."""

from __future__ import annotations

import time

import pytest

from acquisition.errors import FrameError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.snapshot.visibility.workers import read_workers
from acquisition.wire import keys, lease
from acquisition.wire.lease import Holder

ONE, TWO = Holder("1" * 16, 60_000, "web1:11"), Holder("2" * 16, 90_000, "web2:22")


def test_nobody(cluster: Cluster) -> None:
    found = read_workers(cluster, read_layout(cluster))
    assert found.workers == ()
    assert found.unowned == tuple(range(keys.DEFAULT_PARTITIONS))
    assert found.errors == ()


def test_holders_and_those_who_wait(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    now = time.time() * 1000
    stale = lease.encode(Holder("3" * 16, 2000, "gone:33"))
    for number, tag in enumerate(layout.tags):
        if number != 5:
            cluster.call(keys.lease(tag), "SET", keys.lease(tag), lease.encode(ONE), "PX", 59_500)
        cluster.call(keys.workers(tag), "ZADD", keys.workers(tag), now + 89_000, lease.encode(TWO), now - 5, stale)
    found = read_workers(cluster, layout)
    passed = time.time() - now / 1000 + 0.01  # the shards' clocks tick in milliseconds
    assert [(worker.name, len(worker.partitions), worker.lease_seconds) for worker in found.workers] == [
        ("web1:11", keys.DEFAULT_PARTITIONS - 1, 60.0),
        ("web2:22", 0, 90.0),
    ]
    for worker, before in zip(found.workers, (0.5, 1.0), strict=True):
        assert before - 0.01 <= worker.renewed <= before + passed
    assert found.unowned == (5,)
    assert found.errors == ()


def test_what_is_no_worker_is_told_with_its_reason(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    first, second = layout.tags[:2]
    cluster.call(keys.lease(first), "SET", keys.lease(first), "garbage")
    cluster.call(keys.workers(second), "SET", keys.workers(second), "of another type")
    found = read_workers(cluster, layout)
    assert len(found.errors) == 2
    assert not {0, 1}.intersection(found.unowned)


@pytest.mark.parametrize("data", [b"", b"x 1 y", b"1" * 16 + b" -1 y", b"1" * 16 + b" 5 a b", b"1" * 16 + b" 5 "])
def test_what_is_no_holder_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        lease.decode(data)


def test_a_holder_reads_back() -> None:
    assert lease.decode(lease.encode(ONE)) == ONE
