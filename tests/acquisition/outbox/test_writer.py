"""The writer against real shards and the real filter: what is offered is applied once, in order."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from acquisition.errors import FrameError, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import write_layout
from acquisition.link.resp import Address, Connection
from acquisition.link.trust.credentials import Credentials
from acquisition.model.metric import schema_hash
from acquisition.outbox import in_flight
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.writer import Writer
from acquisition.shards.servers.launch import Shards
from acquisition.wire import keys, status
from acquisition.wire.frame import Samples
from tests.support import slow_loading
from tests.support.emptied import flush
from tests.support.fixture_types import MakePipeline
from tests.support.waiting import PATIENCE, eventually
from tests.support.writer_bench import HOST, METRICS, OTHER_SET, SET, Pipeline

OwnCluster = Callable[..., Pipeline]


@pytest.fixture
def own_cluster(start_cluster: Callable[..., Shards], make_pipeline: MakePipeline) -> Iterator[OwnCluster]:
    """``own_cluster(count, directives=..., **options of Pipeline)``: a pipeline on a cluster of its own."""

    def make(count: int = 1, directives: dict[str, str] | None = None, **options: object) -> Pipeline:
        shards = start_cluster(count, directives=directives or {})
        connected = shards.connect()
        pipeline = make_pipeline(cluster=connected, seeds=shards.addresses, **options)
        OWN[id(pipeline)] = shards
        return pipeline

    yield make
    OWN.clear()


def raw_length(pipeline: Pipeline) -> int:
    key = keys.raw(pipeline.tag)
    return int(pipeline.cluster.call(key, "XLEN", key))


@pytest.mark.alone
def test_frames_of_two_sets_are_applied_in_order(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    pipeline.start_filter()
    for _ in range(20):
        pipeline.offer(1, SET)
        pipeline.offer(1, OTHER_SET, entities=30)
        pipeline.turn()
    pipeline.turn_until(lambda: pipeline.is_applied(SET) and pipeline.is_applied(OTHER_SET))
    for resource_set, samples in ((SET, 40), (OTHER_SET, 1200)):
        account = pipeline.assert_everything_applied_once(resource_set)
        assert (account.applied, account.frames, account.refused_frames) == (samples, 21, 0)
    assert pipeline.writer.account()["resent_frames"] == 0
    assert pipeline.slowest < 0.25


def test_offers_before_any_shard_is_there_wait() -> None:
    writer = Writer(HOST, "alpha", [Address("127.0.0.1", 1)], None, Outbox(None))
    now = time.monotonic()
    due = writer.service(now)
    assert due > now
    assert "is unreachable" in writer.problem
    assert writer.account()["errors"]["refused"] >= 1
    assert not writer.drain(0.05)
    writer.close()


def test_drain_waits_for_acknowledgement_and_status(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    pipeline.offer(50)
    assert pipeline.writer.drain(PATIENCE)
    assert raw_length(pipeline) == 51
    key = keys.status(pipeline.tag, HOST)
    record = status.decode(pipeline.cluster.call(key, "GET", key))
    row = record.sets[SET]
    assert (row.frames, row.sent, row.made, row.sent_samples) == (51, 51, 100, 100)
    assert pipeline.cluster.call(key, "TTL", key) > 500
    assert record.host_name == "alpha"


def test_extra_status_is_merged_and_never_hides_the_account(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    pipeline.writer.set_extra_status({"ticks": 7, "host": "liar", "sets": {}})
    pipeline.offer()
    assert pipeline.writer.drain(PATIENCE)
    key = keys.status(pipeline.tag, HOST)
    record = status.decode(pipeline.cluster.call(key, "GET", key))
    assert record.rest["ticks"] == 7
    assert record.host_name == "alpha"
    assert SET in record.sets


def test_frames_made_before_filter_start_are_applied_once(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline()
    pipeline.offer(30)
    pipeline.turn_until(lambda: raw_length(pipeline) == 31)
    pipeline.turn_for(0.5)  # several positions are read, all absent: no reason to send again
    assert pipeline.writer.account()["resent_frames"] == 0
    assert raw_length(pipeline) == 31
    pipeline.start_filter()
    pipeline.turn_until(pipeline.is_applied)
    pipeline.assert_everything_applied_once()
    assert pipeline.writer.account()["resent_frames"] == 0


def test_table_is_wanted_once_and_again_when_the_filter_lacks_names(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    writer = pipeline.writer
    assert writer.wants_table(SET)
    pipeline.offer()
    assert not writer.wants_table(SET)
    pipeline.start_filter()
    pipeline.turn_until(pipeline.is_applied)
    pipeline.turn_for(0.3)
    assert not writer.wants_table(SET)


def test_inconsistent_frame_is_refused_without_a_number(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    assert pipeline.offer() == 2
    with pytest.raises(FrameError, match="does not match"):
        pipeline.writer.offer(Samples(SET, 1, 2, 2, 1.0, 1, 1.0, 1.0, b"", b""))
    assert pipeline.offer() == 3


# ------------------------------------------------------------------ what is lost in the shard


def test_deleted_entry_is_missing_in_the_books_until_it_is_sent_again(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(position_interval=0.4)
    key = keys.raw(pipeline.tag)
    pipeline.offer(10)
    assert pipeline.writer.drain(PATIENCE)
    entries = pipeline.cluster.call(key, "XRANGE", key, "-", "+")
    assert pipeline.cluster.call(key, "XDEL", key, entries[5][0]) == 1
    pipeline.start_filter()
    worker = pipeline.worker
    assert worker is not None
    # the writer is not serviced: nothing is sent again yet
    eventually(lambda: pipeline.account().missing != 0, meanwhile=lambda: worker.turn(0.01))
    account = pipeline.account()
    # the table, frames 2 to 5 are applied; frame 6 is gone, 7 to 11 are refused
    assert (account.applied, account.lost, account.pending, account.missing) == (8, 0, 12, 12)
    assert (account.refused_frames, account.balanced) == (5, True)
    pipeline.turn_until(pipeline.is_applied)
    pipeline.assert_everything_applied_once()
    assert pipeline.writer.account()["resent_frames"] == 6
    assert pipeline.writer.account()["sets"][SET]["go_backs"] == 1


def test_deleted_last_entry_is_noticed_too(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    key = keys.raw(pipeline.tag)
    pipeline.offer(3)
    assert pipeline.writer.drain(PATIENCE)
    entries = pipeline.cluster.call(key, "XREVRANGE", key, "+", "-", "COUNT", 1)
    pipeline.cluster.call(key, "XDEL", key, entries[0][0])
    pipeline.start_filter()
    pipeline.turn_for(0.3)
    assert not pipeline.is_applied()  # nothing newer came: neither the filter nor we can know
    pipeline.offer()
    pipeline.turn_until(pipeline.is_applied)
    pipeline.assert_everything_applied_once()


@pytest.mark.parametrize("filter_runs", [True, False])
def test_emptied_shards_get_everything_that_is_held(
    make_pipeline: MakePipeline, cluster: Cluster, shards: Shards, filter_runs: bool
) -> None:
    pipeline = make_pipeline()
    if filter_runs:
        pipeline.start_filter()
    pipeline.offer(20)
    pipeline.turn_until(pipeline.is_applied if filter_runs else lambda: raw_length(pipeline) == 21)
    pipeline.turn_for(0.3)
    flush(cluster, shards.addresses)
    write_layout(cluster, keys.DEFAULT_PARTITIONS)
    pipeline.offer(5)
    pipeline.turn_for(0.3)
    if not filter_runs:
        pipeline.start_filter()
    pipeline.turn_until(pipeline.is_applied)
    account = pipeline.assert_everything_applied_once()
    assert account.before == 0  # all of it was still in the ring


def test_what_the_ring_no_longer_holds_is_counted_as_lost(make_pipeline: MakePipeline) -> None:
    outbox = Outbox(None, 8192)
    pipeline = make_pipeline(outbox=outbox)
    pipeline.start_filter()
    pipeline.offer(5)
    pipeline.turn_until(pipeline.is_applied)
    pipeline.turn_until(lambda: outbox.windows[SET].applied == 6)
    pipeline.offer(200)  # far more than the ring holds
    window = outbox.windows[SET]
    lost = window.floor - 7
    assert lost > 100
    pipeline.turn_until(pipeline.is_applied)
    made = window.made
    pipeline.turn_until(lambda: pipeline.account().made == made)
    account = pipeline.account()
    assert (account.lost, account.pending, account.duplicated) == (2 * lost, 0, 0)
    assert account.missing == 0
    assert pipeline.writer.account()["dropped_samples"] == 2 * lost
    assert account.made == account.applied + account.lost


@pytest.mark.parametrize("unconfirmed", [0, 1])
def test_what_was_applied_before_shards_were_restarted_is_not_lost(
    make_pipeline: MakePipeline, cluster: Cluster, shards: Shards, monkeypatch: pytest.MonkeyPatch, unconfirmed: int
) -> None:
    """While the ring is sent again to empty shards, it gives up frames that the filter had applied before."""
    monkeypatch.setattr(in_flight, "_MOST_PER_SEND", 1)  # one frame at a time
    later = 0.0
    pipeline = make_pipeline(outbox=Outbox(None, clock=lambda: time.monotonic() + later))
    pipeline.start_filter()
    pipeline.offer(30)
    window = pipeline.outbox.windows[SET]
    pipeline.turn_until(lambda: window.confirmed == window.last)
    flush(cluster, shards.addresses)
    write_layout(cluster, keys.DEFAULT_PARTITIONS)
    pipeline.turn_until(lambda: 0 < getattr(pipeline.position(), "applied", 0) < 30)
    pipeline.offer(unconfirmed)  # only these may be lost
    later = 601.0
    pipeline.offer(1)
    assert window.floor == window.last
    pipeline.turn_until(pipeline.is_applied)
    pipeline.turn_until(lambda: pipeline.account().made == window.made)
    account = pipeline.account()
    assert account.balanced
    assert bool(account.lost) == bool(unconfirmed)
    assert account.made == account.before + account.applied + account.lost


# ------------------------------------------------------------------ shards in trouble


def call(pipeline: Pipeline, *command: object) -> object:
    """A command on the first shard, on a connection of its own."""
    connection = pipeline.cluster.connect(shards_of(pipeline).addresses[0])
    try:
        return connection.call(*command)  # type: ignore[arg-type]
    finally:
        connection.close()


def shards_of(pipeline: Pipeline) -> Shards:
    return OWN[id(pipeline)]


OWN: dict[int, Shards] = {}


def can_listen(address: Address) -> bool:
    with suppress(OSError), socket.create_server(address):
        return True
    return False


@contextmanager
def restarted(shards: Shards) -> Iterator[None]:
    """The first shard again, without its data, by its own configuration and node file."""
    dead = shards.shards[0]
    directory = Path(dead.directory)
    # a server that is being killed still has its port for a moment
    eventually(lambda: not (dead.alive or not can_listen(dead.address)))
    server = subprocess.Popen([shards.redis.path, "redis.conf"], cwd=directory, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        server.kill()
        server.wait()


def is_up(pipeline: Pipeline) -> bool:
    with suppress(ShardpulseError):
        pipeline.cluster.call(keys.raw(pipeline.tag), "EXISTS", keys.raw(pipeline.tag))
        return True
    return False


@pytest.mark.few
def test_shard_killed_and_restarted_empty(own_cluster: OwnCluster) -> None:
    pipeline = own_cluster()
    pipeline.start_filter()
    pipeline.offer(20)
    pipeline.turn_until(pipeline.is_applied)
    pipeline.stop_filter()
    os.kill(shards_of(pipeline).pids[0], signal.SIGKILL)
    for _ in range(20):
        pipeline.offer()
        pipeline.turn()
    pipeline.turn_until(lambda: pipeline.writer.problem)
    assert pipeline.slowest < 0.25
    with restarted(shards_of(pipeline)):
        pipeline.turn_until(lambda: is_up(pipeline))
        write_layout(pipeline.cluster, keys.DEFAULT_PARTITIONS)
        pipeline.start_filter()
        pipeline.turn_until(pipeline.is_applied)
        assert pipeline.assert_everything_applied_once().before == 0  # everything was still held
        assert pipeline.writer.problem == ""


@pytest.mark.few
def test_shard_that_hangs_delays_no_tick(own_cluster: OwnCluster) -> None:
    pipeline = own_cluster(timeout=0.3)
    pipeline.start_filter()
    pipeline.offer(5)
    pipeline.turn_until(pipeline.is_applied)
    pipeline.stop_filter()
    pid = shards_of(pipeline).pids[0]
    os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(10):
            pipeline.offer()
            pipeline.turn_for(0.1)
        pipeline.turn_until(lambda: "timed out" in pipeline.writer.problem)
        assert pipeline.slowest < 0.25
    finally:
        os.kill(pid, signal.SIGCONT)
    pipeline.start_filter()
    pipeline.turn_until(pipeline.is_applied)
    pipeline.assert_everything_applied_once()
    assert pipeline.writer.account()["errors"]["timeout"] >= 1


def test_slot_moved_to_another_shard_under_way(own_cluster: OwnCluster) -> None:
    pipeline = own_cluster(2)
    shards = shards_of(pipeline)
    pipeline.start_filter()
    pipeline.offer(10)
    pipeline.turn_until(pipeline.is_applied)
    slot = keys.slot_of(keys.raw(pipeline.tag))
    owner = pipeline.cluster.owner(keys.raw(pipeline.tag))
    other = next(address for address in shards.addresses if address != owner)
    source, target = pipeline.cluster.connect(owner), pipeline.cluster.connect(other)
    source_id, target_id = (connection.call("CLUSTER", "MYID") for connection in (source, target))
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
    pipeline.offer()
    pipeline.turn_for(0.1)
    names = source.call("CLUSTER", "GETKEYSINSLOT", slot, 1000)
    source.call("MIGRATE", other.host, other.port, "", 0, 5000, "KEYS", *names)
    for _ in range(5):  # now the shard answers ASK
        pipeline.offer()
        pipeline.turn_for(0.05)
    target.call("CLUSTER", "SETSLOT", slot, "NODE", target_id)
    source.call("CLUSTER", "SETSLOT", slot, "NODE", target_id)
    pipeline.offer()
    pipeline.turn_until(pipeline.is_applied)
    pipeline.assert_everything_applied_once()
    assert pipeline.cluster.owner(keys.raw(pipeline.tag)) == other
    errors = pipeline.writer.account()["errors"]
    assert errors.get("ask", 0) + errors.get("moved", 0) >= 1
    source.close()
    target.close()


def test_credentials_that_are_refused_are_told_and_retried_slowly(own_cluster: OwnCluster) -> None:
    pipeline = own_cluster()
    pipeline.offer(3)
    assert pipeline.writer.drain(PATIENCE)
    call(pipeline, "CONFIG", "SET", "requirepass", "secret")
    seeds = shards_of(pipeline).addresses
    try:
        for credentials, kind in ((None, "noauth"), (Credentials("default", "wrong"), "wrongpass")):
            writer = Writer(HOST, "alpha", seeds, credentials, Outbox(None))
            eventually(lambda: kind.upper() in writer.problem, meanwhile=lambda: writer.drain(0.1))  # noqa: B023
            assert "password_file" in writer.problem
            assert writer.account()["errors"] == {kind: 1}
            writer.close()
        writer = Writer(HOST, "alpha", seeds, Credentials("default", "secret"), Outbox(None))
        assert writer.drain(PATIENCE)
        writer.close()
    finally:
        connection = Connection(seeds[0], Credentials("default", "secret"))
        connection.call("CONFIG", "SET", "requirepass", "")
        connection.close()


def test_loading_shard_is_waited_for(own_cluster: OwnCluster) -> None:
    """A shard that answers LOADING: DEBUG cannot fake it, so a real load is made slow."""
    pipeline = own_cluster()
    pipeline.offer(3)
    pipeline.turn_until(lambda: raw_length(pipeline) == 4)
    shards = shards_of(pipeline)
    with closing(pipeline.cluster.connect(shards.addresses[0])) as connection:
        slow_loading.save_large(connection, pipeline.tag)
    os.kill(shards.pids[0], signal.SIGKILL)
    configuration = Path(shards.shards[0].directory, "redis.conf")
    text = configuration.read_text().replace('save ""', "save 3600 1")
    slow = slow_loading.directives(100_000)
    configuration.write_text(text + "".join(f"{name} {value}\n" for name, value in slow.items()))
    with restarted(shards):
        pipeline.turn_until(lambda: pipeline.writer.account()["errors"].get("loading", 0) >= 1)
        pipeline.offer(3)
        pipeline.turn_until(lambda: is_up(pipeline) and pipeline.writer.problem == "", 3 * PATIENCE)
        pipeline.start_filter()
        pipeline.turn_until(pipeline.is_applied)
        pipeline.assert_everything_applied_once()


def test_shards_without_layout_are_told_apart(own_cluster: OwnCluster) -> None:
    pipeline = own_cluster()
    call(pipeline, "FLUSHALL")
    pipeline.turn_until(lambda: "shardpulse shards up" in pipeline.writer.problem)
    write_layout(pipeline.cluster, keys.DEFAULT_PARTITIONS)
    assert pipeline.writer.drain(PATIENCE)


def test_something_that_is_no_redis_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        writer = Writer(HOST, "alpha", [Address(*server.getsockname())], None, Outbox(None))
        writer.service(time.monotonic())
        peer, _ = server.accept()
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        eventually(
            lambda: "is not a Redis server" in writer.problem, meanwhile=lambda: writer.service(time.monotonic())
        )
        peer.close()
        writer.close()


# ------------------------------------------------------------------ the probe in trouble


CHILD = """
import struct, sys, time
from acquisition.outbox import in_flight
from acquisition.outbox.frames.store import Outbox
from acquisition.link.resp import parse_address
from acquisition.outbox.writer import Writer
from acquisition.wire.frame import Samples
path, host, start = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
writer = Writer(host, "alpha", [parse_address(sys.argv[4])], None, Outbox(path), position_interval=0.1)
tick = start
while True:
    tick += 1
    values = struct.pack("<2f", tick, tick)
    writer.offer(Samples({set}, {schema}, 1, 2, 1.0, tick, time.time(), float(tick), bytes(8), values))
    writer.service(time.monotonic())
    print(tick, flush=True)
    time.sleep(0.002)
"""


def test_probe_killed_again_and_again_loses_nothing(
    make_pipeline: MakePipeline, shards: Shards, tmp_path: Path
) -> None:
    ring = tmp_path / "ring"
    program = CHILD.replace("{set}", str(SET)).replace("{schema}", str(schema_hash(METRICS)))
    ticks = 0
    for _ in range(4):
        arguments = [str(ring), str(HOST), str(ticks), str(shards.addresses[0])]
        child = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(40):
            assert child.stdout.readline()
        child.kill()
        rest = child.stdout.read().split()
        ticks += 40 + len(rest)
        child.wait()
        child.stdout.close()
    pipeline = make_pipeline(outbox=Outbox(str(ring)))
    window = pipeline.outbox.windows[SET]
    assert pipeline.outbox.found == "recovered"
    assert ticks <= window.last <= ticks + 4  # a frame may be stored and its line not written yet
    assert window.made == 2 * window.last
    pipeline.tick = window.last
    pipeline.start_filter()
    pipeline.offer()
    pipeline.turn_until(pipeline.is_applied)
    account = pipeline.assert_everything_applied_once()
    assert (account.before, account.frames) == (0, window.last)


def test_end_of_the_ring_torn_after_it_was_applied_starts_a_new_epoch(
    make_pipeline: MakePipeline, tmp_path: Path
) -> None:
    """Its numbers are used up, so frames that bear them again would be dropped as duplicates."""
    ring = tmp_path / "ring"
    pipeline = make_pipeline(outbox=Outbox(str(ring)))
    worker = pipeline.start_filter()
    pipeline.offer(10)
    pipeline.turn_until(pipeline.is_applied)
    epoch = pipeline.outbox.windows[SET].epoch
    pipeline.writer.close()
    with ring.open("r+b") as file:
        file.truncate(ring.stat().st_size - 5)
    again = make_pipeline(outbox=Outbox(str(ring)))
    again.tick, again.worker, pipeline.worker = pipeline.tick, worker, None
    window = again.outbox.windows[SET]
    assert (window.epoch, window.last) == (epoch, 10)
    again.offer(3)  # before it could ask: these bear numbers 11 (and the table 12) to 14
    again.turn_until(again.is_applied)
    assert window.epoch > epoch
    account = again.assert_everything_applied_once()
    assert account.applied == 6
    assert account.gaps == 1  # how much of it was torn off, nobody knows


def test_deleted_ring_file_is_written_again(make_pipeline: MakePipeline, tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    pipeline = make_pipeline(outbox=Outbox(str(ring)))
    pipeline.offer(5)
    pipeline.turn_for(0.2)
    ring.unlink()
    pipeline.turn_until(ring.exists)
    pipeline.offer(5)
    assert pipeline.writer.drain(PATIENCE)
    pipeline.writer.close()
    again = Outbox(str(ring))
    assert again.windows[SET].last == 11
    assert pipeline.writer.account()["errors"] == {"ring_deleted": 1}
    again.close()
