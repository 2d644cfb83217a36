"""What somebody with the password of a probe can do to a partition is mended and told, and nothing is lost."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from acquisition.link import happenings
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Connection
from acquisition.log import TroubleLog
from acquisition.shards.servers import grants
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot.reconcile import books
from acquisition.wire import keys
from filters.runtime.background_jobs import BackgroundJobs
from filters.worker.loop.assembly import lone_worker
from filters.worker.loop.guard import Guard
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import events_of
from tests.support.granted import granted, user
from tests.support.intruder import Intruded

GREATEST = "18446744073709551615-18446744073709551615"


class Bench(Intruded):
    """The filter has a guard, and all partitions."""

    def __init__(self, shards: Shards, cluster: Cluster) -> None:
        super().__init__(shards, cluster)
        self.worker = lone_worker(self.own, self.layout, FilterSettings(), report=self.said.append)
        self.jobs = BackgroundJobs()
        self.guard = Guard(self.own, self.layout, self.worker, self.jobs, TroubleLog(self.said.append), every=0.05)

    def turn(self) -> None:
        super().turn()
        self.guard.turn()
        self.jobs.deliver()

    def close(self) -> None:
        super().close()
        self.jobs.close()

    def events(self, kind: str) -> list[happenings.Entry]:
        return events_of(self.cluster, self.layout.tags, kind)


@pytest.fixture
def bench(shards: Shards, cluster: Cluster) -> Iterator[Bench]:
    with granted(shards):
        made = Bench(shards, cluster)
        yield made
        made.close()


def end(bench: Bench) -> None:
    bench.forge("XADD", bench.raw, GREATEST, "f", "x")


def end_and_empty(bench: Bench) -> None:
    bench.forge("XADD", bench.raw, "MAXLEN", "0", GREATEST, "f", "x")
    assert bench.cluster.call(bench.raw, "XLEN", bench.raw) == 0


def be_ahead(bench: Bench) -> None:
    bench.forge("XADD", bench.raw, f"{round(time.time() * 1000) + 365 * 86_400_000}-1", "f", "x")
    bench.forge("XADD", bench.raw, "*", "f", "x")


@pytest.mark.parametrize("forge", [end, end_and_empty, be_ahead])
def test_stream_with_future_ids_restarts_without_loss(bench: Bench, forge: Callable[[Bench], None]) -> None:
    bench.applies(3)
    forge(bench)
    bench.applies(5)
    bench.turn_until(lambda: bench.events("ids_ahead"), 40)
    bench.applies(5)
    newest, _ = bench.cluster.call(bench.raw, "XREVRANGE", bench.raw, "+", "-", "COUNT", 1)[0]
    assert int(newest.partition(b"-")[0]) < 1000 * time.time() + 60_000
    assert any("ahead of its shard's clock: stream reset" in text for text in bench.said)
    bench.turn_until(lambda: books.read(bench.cluster, bench.layout).balanced)
    assert books.totals(books.read(bench.cluster, bench.layout).accounts).lost == 0


def test_oversized_or_foreign_statuses_are_removed_and_reported(bench: Bench) -> None:
    bench.applies(1)
    large, foreign = keys.status(bench.tag, 1), f"status:{{{bench.tag}}}:somebody"
    elsewhere = "status:{nowhere}:0123456789abcdef"
    for name in (large, foreign, foreign.encode() + b"\xff"):
        bench.forge("SET", name, "x" * (1 << 20))
    own = bench.cluster.owner(elsewhere)
    with contextlib.closing(Connection(own, user(grants.PROBE))) as connection:
        connection.call("SET", elsewhere, "x")
        connection.call("XADD", "raw:{nowhere}", "*", "f", "x")
    bench.forge("XADD", f"{bench.raw}more}}", "*", "f", "x")
    for name in (large, foreign, elsewhere, "raw:{nowhere}", f"{bench.raw}more}}"):
        bench.turn_until(lambda name=name: not bench.cluster.call(name, "EXISTS", name), 40)  # type: ignore[misc]
    bench.turn_until(lambda: len(bench.events("oversized")) == 6, 40)
    reasons = {one.details["reason"].rpartition(": ")[2] for one in bench.events("oversized")}
    assert reasons == {f"{1 << 20} bytes, too large", "not of a host of any partition"}
    name = keys.status(bench.tag, bench.host)  # that of the probe
    assert bench.cluster.call(name, "EXISTS", name) == 1
