"""What others write into the keys of one partition stops neither it nor the other ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from acquisition.link.cluster import Cluster, read_layout
from acquisition.wire import keys
from filters.worker.assembly import leasing_worker
from filters.worker.leases.leases import new_holder
from filters.worker.settings import FilterSettings
from tests.support.feeder import Feeder
from tests.support.series import applied_sequence, assert_equals_model, feed
from tests.support.waiting import PATIENCE, eventually


class Bench:
    """A worker with leases, turned by hand."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        layout = read_layout(cluster)
        self.said: list[str] = []
        self.worker, self.leases, _ = leasing_worker(
            cluster, layout, FilterSettings(), new_holder(0.4), self.said.append
        )

    def until(self, done: Callable[[], bool], seconds: float = PATIENCE) -> None:
        eventually(
            done,
            seconds,
            meanwhile=lambda: self.worker.turn(min(0.05, self.leases.turn())),
            says=lambda: self.said,
        )

    def applied(self, *expected: tuple[Feeder, int]) -> Callable[[], bool]:
        return lambda: all(applied_sequence(self.cluster, feeder) == last for feeder, last in expected)


@pytest.fixture
def bench(cluster: Cluster) -> Iterator[Bench]:
    bench = Bench(cluster)
    yield bench
    bench.worker.close()
    bench.leases.close()


@pytest.mark.parametrize("kind", ["raw", "commit", "rejected", "lease", "workers", "smoothed", "names"])
def test_a_key_of_another_type_is_removed_and_work_goes_on(bench: Bench, kind: str) -> None:
    victim, other = Feeder(bench.cluster, host=7), Feeder(bench.cluster, host=8)
    feed(victim, 1, 3)
    feed(other, 1, 3)
    bench.until(bench.applied((victim, 3), (other, 3)))
    tag = victim.tag
    key = {
        "smoothed": keys.smoothed(tag, victim.host, victim.resource_set, 1_000_004 % keys.DEFAULT_KEEP_TICKS),
        "names": keys.names(tag, victim.host, victim.resource_set),
    }.get(kind) or {name: getattr(keys, name)(tag) for name in ("raw", "commit", "rejected", "lease", "workers")}[kind]
    bench.cluster.call(key, "DEL", key)
    bench.cluster.call(key, "HSET", key, "who", "a stranger")
    feed(other, 4, 6)
    bench.until(bench.applied((other, 6)))
    raw = keys.raw(tag)
    if kind == "rejected":
        bench.cluster.call(raw, "XADD", raw, "*", "f", "garbage")
    bench.until(lambda: bench.cluster.call(raw, "TYPE", raw) != b"hash")
    feed(victim, 4, 6)
    bench.until(bench.applied((victim, 6)))
    assert_equals_model(bench.cluster, victim, 6)
    assert_equals_model(bench.cluster, other, 6)
    if kind not in ("smoothed", "names"):
        bench.until(lambda: any("another type" in text for text in bench.said))


ENTRIES: list[tuple[Any, ...]] = [
    ("a", "b"),
    ("f", ""),
    ("f", b"\0" * 96),
    ("f", b"SPLS" + b"\xff" * 200),
    ("F", "x", "f", "y"),
    ("f", "x", "f", "y", "g", "z"),
    (b"\xff\xfe", b"\x00"),
    ("x" * 10_000, "y" * 100_000),
    tuple(str(n) for n in range(2000)),
]


def test_entries_of_any_shape_are_put_aside(bench: Bench) -> None:
    victim = Feeder(bench.cluster, host=7)
    raw = keys.raw(victim.tag)
    for number, entry in enumerate(ENTRIES, 1):
        bench.cluster.call(raw, "XADD", raw, "*", *entry)
        feed(victim, number, number)
    bench.until(bench.applied((victim, len(ENTRIES))))
    assert_equals_model(bench.cluster, victim, len(ENTRIES))
    assert bench.worker.counters["rejected"] == len(ENTRIES)


def test_a_stream_whose_ids_are_used_up_begins_anew(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    raw = keys.raw(feeder.tag)
    feed(feeder, 1, 2)
    bench.cluster.call(raw, "XADD", raw, f"{2**64 - 1}-{2**64 - 1}", "f", "the last one")
    bench.until(lambda: bench.cluster.call(raw, "EXISTS", raw) == 0)
    feed(feeder, 3, 4)
    bench.until(bench.applied((feeder, 4)))
    assert_equals_model(bench.cluster, feeder, 4)


@pytest.mark.parametrize("value", ["garbage", "0123456789abcdef -5 name", b"\xff\x00"])
def test_a_foreign_lease_runs_out(bench: Bench, value: Any) -> None:
    feeder = Feeder(bench.cluster)
    key = keys.lease(feeder.tag)
    bench.cluster.call(key, "SET", key, value)  # and never expires by itself
    feed(feeder, 1, 2)
    bench.until(bench.applied((feeder, 2)))
    members = keys.workers(feeder.tag)
    bench.cluster.call(members, "ZADD", members, 9e15, value, 1e300, "x", "inf", "y")
    bench.until(lambda: len(bench.worker.partitions) == keys.DEFAULT_PARTITIONS)
    feed(feeder, 3, 4)
    bench.until(bench.applied((feeder, 4)))
