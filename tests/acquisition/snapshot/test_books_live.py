"""The balance while data flow: hammering reads beside a writer, a filter, faults, moves and a failover."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.outbox.frames.store import Outbox
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot.reconcile import books
from acquisition.snapshot.reconcile.balance import REPORTED, Account
from acquisition.wire import keys
from acquisition.wire.status import SetStatus
from tests.support.fixture_types import MakePipeline, StartCluster
from tests.support.waiting import eventually
from tests.support.writer_bench import HOST, OTHER_SET, SET, Pipeline


class Auditor:
    """Reads the books again and again, as fast as it can, and keeps what is wrong with any of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._layout = read_layout(cluster)
        self.wrong: list[str] = []
        self.readings = 0
        self.failures = 0
        self.most_lost = self.most_pending = 0
        self.newest: dict[int, Account] = {}
        self._made: dict[tuple[int, int], int] = {}

    def read(self) -> None:
        """One reading; a shard that does not answer is no fault of the books."""
        try:
            found = books.read(self._cluster, self._layout)
        except ShardpulseError:
            self.failures += 1
            return
        self.failures += bool(found.unreadable)
        self.readings += 1
        self.wrong += [row.faults[0] for row in found.accounts if row.faults] + found.problems
        for row in found.accounts:
            if row.made != row.before + row.applied + row.lost + row.pending:
                self.wrong.append(f"the sum: {row}")
            made = self._made.get((row.resource_set, row.epoch), 0)
            if row.report == REPORTED and row.made < made:
                self.wrong.append(f"made went back from {made}: {row}")
            self._made[row.resource_set, row.epoch] = max(made, row.made)
            self.newest[row.resource_set] = row
        self.most_lost = max(self.most_lost, sum(row.lost for row in found.accounts))
        self.most_pending = max(self.most_pending, sum(row.pending for row in found.accounts))


@contextmanager
def audited(cluster: Cluster) -> Iterator[Auditor]:
    """An auditor at work in a thread of its own, with connections of its own."""
    auditor, stop = Auditor(cluster), threading.Event()

    def run() -> None:
        while not stop.is_set():
            auditor.read()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield auditor
    finally:
        stop.set()
        thread.join(10)
        cluster.close()
    assert not auditor.wrong, (len(auditor.wrong), auditor.readings, auditor.wrong[:3])


def flow(pipeline: Pipeline, seconds: float, meanwhile: Callable[[], Any] = lambda: None) -> None:
    """Frames of two sets, of changing size, now and then many at once."""
    choice = random.Random(7)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pipeline.offer(choice.choice((1, 1, 1, 20)), SET, choice.randint(0, 3))
        pipeline.offer(1, OTHER_SET, choice.randint(1, 9))
        pipeline.turn()
        meanwhile()


def settle(pipeline: Pipeline, auditor: Auditor) -> None:
    """Until the books say that everything that was made is applied or lost."""
    windows = pipeline.outbox.windows

    def settled() -> bool:
        return all(
            number in auditor.newest
            and (auditor.newest[number].made, auditor.newest[number].pending) == (windows[number].made, 0)
            for number in (SET, OTHER_SET)
        )

    pipeline.turn_until(settled, 40.0)


def test_balance_holds_at_every_moment_although_entries_vanish(make_pipeline: MakePipeline, shards: Shards) -> None:
    pipeline = make_pipeline(position_interval=0.15)
    worker = pipeline.start_filter()
    pipeline.offer()
    pipeline.offer(1, OTHER_SET)
    key, choice = keys.raw(pipeline.tag), random.Random(3)

    def vanish() -> None:
        if choice.random() < 0.03:
            pipeline.worker = None  # so that entries gather
        elif pipeline.worker is None and choice.random() < 0.1:
            newest = pipeline.cluster.call(key, "XREVRANGE", key, "+", "-", "COUNT", 5)
            pipeline.cluster.call(key, "XDEL", key, newest[choice.randrange(len(newest))][0])
            pipeline.worker = worker

    with audited(shards.connect()) as auditor:
        flow(pipeline, 3.0, vanish)
        pipeline.worker = worker
        settle(pipeline, auditor)
    assert auditor.readings > 50
    assert auditor.most_pending > 0
    assert auditor.most_lost == auditor.failures == 0
    assert auditor.newest[SET].resent_frames > 0


def test_overflow_loss_is_counted_exactly_and_not_early(make_pipeline: MakePipeline, shards: Shards) -> None:
    outbox = Outbox(None, 16384)
    pipeline = make_pipeline(outbox=outbox, position_interval=0.1)
    pipeline.start_filter()
    pipeline.offer()
    pipeline.offer(1, OTHER_SET)
    with audited(shards.connect()) as auditor:
        flow(pipeline, 0.5)
        settle(pipeline, auditor)
        before = {number: auditor.newest[number] for number in (SET, OTHER_SET)}
        pipeline.offer(300, SET, 2)  # nothing of it is sent before the ring has gone round
        pipeline.offer(100, OTHER_SET, 3)
        given_up = {number: outbox.windows[number].floor_made - before[number].made for number in before}
        settle(pipeline, auditor)
        flow(pipeline, 0.5)
        settle(pipeline, auditor)
    assert given_up[SET] > 1000
    assert {number: auditor.newest[number].lost for number in given_up} == given_up
    assert auditor.most_lost == sum(given_up.values())
    assert auditor.newest[SET].dropped >= given_up[SET]  # with what was applied before the probe knew it


def test_killed_probe_leaves_account_and_next_one_continues(
    make_pipeline: MakePipeline, shards: Shards, tmp_path: Any
) -> None:
    ring = str(tmp_path / "ring")
    pipeline = make_pipeline(outbox=Outbox(ring), position_interval=0.1)
    worker = pipeline.start_filter()
    pipeline.offer()
    pipeline.offer(1, OTHER_SET)
    with audited(shards.connect()) as auditor:
        for _ in range(4):
            flow(pipeline, 0.4)
            pipeline.offer(20)  # made, in the ring, and not sent
            pipeline.worker = None
            pipeline.writer._sender.close()  # as kill -9 does: no last words
            pipeline.outbox._ring.close()
            again = make_pipeline(outbox=Outbox(ring), position_interval=0.1)
            again.worker, again.tick = worker, pipeline.tick
            pipeline = again
            assert pipeline.outbox.found == "recovered"
        flow(pipeline, 0.3)
        settle(pipeline, auditor)
    assert auditor.most_lost == 0


def moving(shards: Shards, tag: str) -> Iterator[None]:
    """Move the slot of a partition to the other shard, key by key, one step at a time."""
    cluster = shards.connect()
    slot, owner = keys.slot_of(keys.raw(tag)), cluster.owner(keys.raw(tag))
    other = next(address for address in shards.addresses if address != owner)
    source, target = cluster.connect(owner), cluster.connect(other)
    source_id, target_id = (connection.call("CLUSTER", "MYID") for connection in (source, target))
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
    yield
    while names := source.call("CLUSTER", "GETKEYSINSLOT", slot, 1):
        source.call("MIGRATE", other.host, other.port, "", 0, 5000, "KEYS", *names)
        yield
    target.call("CLUSTER", "SETSLOT", slot, "NODE", target_id)
    source.call("CLUSTER", "SETSLOT", slot, "NODE", target_id)
    for connection in (source, target, cluster):
        connection.close()


def test_no_loss_shows_while_a_partition_moves(start_cluster: StartCluster) -> None:
    shards = start_cluster(2)
    pipeline = Pipeline(shards.connect(), shards.addresses, position_interval=0.1)
    pipeline.start_filter()
    pipeline.offer()
    pipeline.offer(1, OTHER_SET)
    with audited(shards.connect()) as auditor:
        flow(pipeline, 0.5)
        for _ in range(2):
            for _ in moving(shards, pipeline.tag):
                flow(pipeline, 0.05)
            flow(pipeline, 0.2)
        settle(pipeline, auditor)
    pipeline.close()
    assert auditor.readings > 20
    assert auditor.most_lost == auditor.newest[SET].before == 0


def test_no_loss_shows_while_a_replica_takes_over(start_cluster: StartCluster) -> None:
    shards = start_cluster(3, replicas=1)
    pipeline = Pipeline(shards.connect(), shards.addresses, position_interval=0.1)
    pipeline.start_filter()
    pipeline.offer()
    pipeline.offer(1, OTHER_SET)
    owner = pipeline.cluster.owner(keys.raw(pipeline.tag))
    with audited(shards.connect(timeout=0.5)) as auditor:
        flow(pipeline, 0.5)
        replica = next(
            address for address in shards.addresses[3:] if _master_of(pipeline.cluster, address) == owner.port
        )
        os.kill(next(one.pid for one in shards.shards if one.address == owner), signal.SIGKILL)
        connection = pipeline.cluster.connect(replica)
        assert connection.call("CLUSTER", "FAILOVER", "TAKEOVER") == b"OK"
        connection.close()
        flow(pipeline, 1.0)
        settle(pipeline, auditor)
    pipeline.close()
    assert auditor.most_lost == auditor.newest[SET].before == 0


def _master_of(cluster: Cluster, address: Any) -> int:
    connection = cluster.connect(address)
    role = connection.call("ROLE")
    connection.close()
    return int(role[2]) if role[0] == b"slave" else 0


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_books_of_an_expired_host_stay_as_they_were(make_pipeline: MakePipeline, is_kept: bool) -> None:
    """A killed probe whose set the filter forgets: what was applied is applied, with or without the filter's record
    of where it stood."""
    pipeline = make_pipeline(outbox=Outbox(None, capacity_bytes=1 << 16), position_interval=0.1)
    pipeline.start_filter(expire_seconds=4.0)
    for _ in range(15):  # the ring holds the newest part of it only
        pipeline.offer(60)
        window = pipeline.outbox.windows[SET]
        pipeline.turn_until(lambda: window.applied == window.last)  # noqa: B023 - called here alone
    pipeline.turn_until(lambda: the_account(pipeline).pending == 0)
    pipeline.turn_until(lambda: status_of(pipeline).applied == status_of(pipeline).frames)
    before = the_account(pipeline)
    assert before.applied == before.made > 0
    pipeline.writer._sender.close()  # as kill -9 does
    applied, dormant = keys.applied(pipeline.tag), keys.dormant(pipeline.tag)
    worker = pipeline.worker
    assert worker is not None
    eventually(lambda: not pipeline.cluster.call(applied, "EXISTS", applied), meanwhile=lambda: worker.turn(0.05))
    if not is_kept:
        pipeline.cluster.call(dormant, "DEL", dormant)
    after = the_account(pipeline)
    assert after.faults == ()
    assert (after.made, after.lost) == (before.made, 0)
    if is_kept:
        assert (after.before, after.applied, after.pending) == (before.before, before.applied, before.pending)


def the_account(pipeline: Pipeline) -> Account:
    (found,) = books.read(pipeline.cluster, pipeline.layout).accounts
    return found


def status_of(pipeline: Pipeline) -> SetStatus:
    record = books.read_status(pipeline.cluster, pipeline.layout, HOST)
    assert record is not None
    return record.sets[SET]
