"""What others write into the keys of one partition stops neither it nor the other ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.log import TroubleLog
from acquisition.model.metric import GAUGE, Metric
from acquisition.wire import keys, position, table
from acquisition.wire.position import Position
from acquisition.wire.table import Entity, Table
from filters.runtime.background_jobs import BackgroundJobs
from filters.worker.compute.smoothing import Smoother
from filters.worker.loop.assembly import leasing_worker
from filters.worker.loop.guard import Guard
from filters.worker.loop.leases import new_holder
from filters.worker.partitions.batch import Accepted
from filters.worker.partitions.partition import Partition
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import rejected_of
from tests.support.feeder import Feeder
from tests.support.series import applied_sequence, assert_equals_model, feed
from tests.support.waiting import PATIENCE, eventually


class Bench:
    """A worker with leases, turned by hand."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        layout = read_layout(cluster)
        self.said: list[str] = []
        self.worker, self.leases, *_ = leasing_worker(
            cluster, layout, FilterSettings(), new_holder(0.4), self.said.append
        )
        self.jobs = BackgroundJobs()
        self.guard = Guard(cluster, layout, self.worker, self.jobs, TroubleLog(self.said.append), every=0.05)

    def until(self, done: Callable[[], bool], seconds: float = PATIENCE) -> None:
        eventually(done, seconds, meanwhile=self.turn, says=lambda: self.said)

    def turn(self) -> None:
        self.worker.turn(min(0.05, self.leases.turn()))
        self.guard.turn()
        self.jobs.deliver()

    def applied(self, *expected: tuple[Feeder, int]) -> Callable[[], bool]:
        return lambda: all(applied_sequence(self.cluster, feeder) == last for feeder, last in expected)


@pytest.fixture
def bench(cluster: Cluster) -> Iterator[Bench]:
    bench = Bench(cluster)
    yield bench
    bench.worker.close()
    bench.leases.close()
    bench.jobs.close()


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
        bench.until(lambda: any("a wrong type" in text for text in bench.said))


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


TABLE = table.encode(
    Table("h", "s", 1.0, "", True, (Metric("a", "", GAUGE, 0.0, 1.0, ""),), (Entity(5, "vm", "u", "1", "guest"),))
)


@pytest.mark.parametrize(
    ("sound", "foreign"),
    [
        (b'"interval":1.0', b'"interval":' + b"9" * 401),
        (b'"guest"', b'"\\ud800"'),
        (b"0.0,1.0", b"0.0,NaN"),
        (TABLE, b"{not json"),
    ],
)
def test_a_table_that_nobody_can_represent_is_put_aside(bench: Bench, sound: bytes, foreign: bytes) -> None:
    stranger, other = Feeder(bench.cluster, host=7), Feeder(bench.cluster, host=7 + keys.DEFAULT_PARTITIONS)
    assert sound in TABLE
    entry = stranger.push(stranger.table(TABLE.replace(sound, foreign)))
    feed(other, 1, 3)
    bench.until(bench.applied((other, 3)))
    assert_equals_model(bench.cluster, other, 3)
    (found,) = rejected_of(bench.cluster, stranger.tag)
    assert (found.entry, found.reason) == (entry, "payload")
    assert any(entry.decode() in text for text in bench.said)


@pytest.mark.parametrize(
    "foreign",
    [
        Position(11, 3, 3, 3.0, 1.0, applied=2**64 - 1, frames=3),
        Position(11, 3, 3, float("nan"), 1.0),
    ],
)
def test_a_position_that_cannot_go_on_counting_is_damaged(bench: Bench, foreign: Position) -> None:
    victim, other = Feeder(bench.cluster, host=7), Feeder(bench.cluster, host=7 + keys.DEFAULT_PARTITIONS)
    sent = feed(victim, 1, 3)
    feed(other, 1, 3)
    bench.until(bench.applied((victim, 3), (other, 3)))
    applied, key = keys.applied(victim.tag), keys.commit(victim.tag)
    member = keys.member(victim.host, victim.resource_set)
    bench.cluster.call(applied, "HSET", applied, member, position.encode(foreign))
    bench.cluster.call(key, "SET", key, b"strange " + bench.cluster.call(key, "GET", key).partition(b" ")[2])
    bench.until(lambda: any("is damaged" in text for text in bench.said))
    for data in sent:  # as its probe does, which reads that nothing of it is applied
        victim.push(data)
    bench.until(lambda: bench.cluster.call(applied, "HGET", applied, member) != position.encode(foreign))
    feed(victim, 4, 6)
    feed(other, 4, 6)
    bench.until(bench.applied((victim, 6), (other, 6)))
    assert_equals_model(bench.cluster, other, 6)


@pytest.mark.parametrize("command", ["XADD {} MAXLEN 0 * f x", "XADD {} MAXLEN 1 * f x", "XTRIM {} MAXLEN 0", "DEL {}"])
def test_a_stranger_who_trims_a_stream_stops_nothing(bench: Bench, command: str) -> None:
    victim = Feeder(bench.cluster)
    raw = keys.raw(victim.tag)
    bench.until(lambda: len(bench.worker.partitions) == keys.DEFAULT_PARTITIONS and bench.worker.settled)
    for last in (2, 4, 6):
        feed(victim, last - 1, last)
        bench.until(bench.applied((victim, last)))
        for _ in range(3):
            bench.cluster.call(raw, *command.format(raw).split())
            bench.until(lambda: bench.worker.settled)
            for _ in range(5):
                bench.worker.turn(0.01)
    assert_equals_model(bench.cluster, victim, 6)
    assert not any("please report it" in text for text in bench.said)


@pytest.mark.parametrize("value", [b"99999999999999999999-0 0", b"0-99999999999999999999 0", b"1-1 " + b"9" * 20])
def test_a_commit_that_no_shard_can_have_is_damaged(bench: Bench, value: bytes) -> None:
    feeder = Feeder(bench.cluster)
    feed(feeder, 1, 3)
    bench.until(bench.applied((feeder, 3)))
    key = keys.commit(feeder.tag)
    bench.cluster.call(key, "SET", key, b"stranger " + value)
    feed(feeder, 4, 6)
    bench.until(bench.applied((feeder, 6)))
    assert_equals_model(bench.cluster, feeder, 6)
    assert position.decode_commit(bench.cluster.call(key, "GET", key)).rejected < 1000


POISON = 666.0


def test_a_frame_that_nobody_can_smooth_is_put_aside_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is raised (here as by a kernel of another package): hosts of the same batch keep their averages."""
    smooth = Smoother.smooth

    def choke(smoother: Smoother, items: list[Accepted]) -> None:
        for item in items:
            if POISON in np.frombuffer(item.decoded().values, "<f4"):
                raise ZeroDivisionError("no kernel can do that")
        smooth(smoother, items)

    monkeypatch.setattr(Smoother, "smooth", choke)
    victim = Feeder(bench.cluster, host=7)
    others = [Feeder(bench.cluster, host=7 + keys.DEFAULT_PARTITIONS), Feeder(bench.cluster, host=8)]
    for feeder in (victim, *others):
        feed(feeder, 1, 3)
    bench.until(bench.applied((victim, 3), *((other, 3) for other in others)))
    for other in others:
        feed(other, 4, 5)
    poison = victim.push(victim.make(np.full((4, 3), POISON), 4.0))
    feed(victim, 5, 6)
    for other in others:
        feed(other, 6, 6)
    bench.until(bench.applied((victim, 6), *((other, 6) for other in others)))
    for other in others:
        assert_equals_model(bench.cluster, other, 6)
    (found,) = rejected_of(bench.cluster, victim.tag)
    assert found[:2] == (poison, "internal")
    assert any(poison.decode() in text and "ZeroDivisionError" in text for text in bench.said)


def test_whatever_is_raised_of_one_partition_leaves_the_others_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, other = Feeder(bench.cluster, host=7), Feeder(bench.cluster, host=8)
    feed(victim, 1, 3)
    feed(other, 1, 3)
    bench.until(bench.applied((victim, 3), (other, 3)))
    commit_of = Partition.commit
    chokes = True

    def choke(partition: Partition, *arguments: Any, **named: Any) -> Any:
        if chokes and partition.tag == victim.tag:
            raise RecursionError("nobody knows why")
        return commit_of(partition, *arguments, **named)

    monkeypatch.setattr(Partition, "commit", choke)
    feed(victim, 4, 6)
    feed(other, 4, 6)
    bench.until(bench.applied((other, 6)))
    bench.until(lambda: any(victim.tag in text and "RecursionError" in text for text in bench.said))
    chokes = False
    bench.until(bench.applied((victim, 6)))
    assert_equals_model(bench.cluster, victim, 6)
