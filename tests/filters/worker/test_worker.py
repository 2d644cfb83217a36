"""The filter worker on real shards: state, order, loss, restart, faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest

from acquisition.errors import FrameError, ShardError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model.metric import Metric
from acquisition.wire import frame, keys, position, table
from acquisition.wire.position import WANT_TABLE, Position
from filters.worker.loop.assembly import lone_worker
from filters.worker.loop.worker import Worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import position_of, rejected_of, turn_until
from tests.support.emptied import flush
from tests.support.feeder import Feeder
from tests.support.series import assert_equals_model, feed, marks, record, values

ZERO = keys.DEFAULT_KEEP_TICKS


class Bench:
    """A worker in this process, turned by hand, and what it left in the shards."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.said: list[str] = []
        self.workers: list[Worker] = []

    def worker(self, **changes: object) -> Worker:
        settings = FilterSettings(**changes)  # type: ignore[arg-type]
        worker = lone_worker(self.cluster, read_layout(self.cluster), settings, report=self.said.append)
        self.workers.append(worker)
        return worker

    def position(self, feeder: Feeder) -> Position | None:
        with suppress(FrameError, ShardError):  # damaged on purpose, and not yet mended
            return position_of(self.cluster, feeder.host, feeder.resource_set)
        return None

    def reached(self, feeder: Feeder, sequence: int) -> bool:
        found = self.position(feeder)
        return found is not None and found.sequence >= sequence


@pytest.fixture
def bench(cluster: Cluster) -> Iterator[Bench]:
    bench = Bench(cluster)
    yield bench
    for worker in bench.workers:
        worker.close()


def test_frames_become_smoothed_records(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    feed(feeder, 1, 8)
    turn_until(worker, lambda: bench.reached(feeder, 8))
    assert_equals_model(bench.cluster, feeder, 8)
    assert_equals_model(bench.cluster, feeder, 7)
    found = bench.position(feeder)
    assert found is not None
    assert (found.applied, found.lost, found.tick) == (8 * 12, 0, 1_000_008)
    assert found.invalid == sum(int(np.count_nonzero(marks(feeder.host, t))) for t in range(1, 9))


def test_a_restart_in_the_middle_changes_nothing(bench: Bench) -> None:
    whole, parts = Feeder(bench.cluster, host=7), Feeder(bench.cluster, host=8)

    def feed_both(feeder: Feeder, first: int, last: int) -> None:
        for tick in range(first, last + 1):  # the same samples for both
            feeder.push(feeder.make(values(7, tick), float(tick), codes=marks(7, tick)))

    worker = bench.worker()
    feed_both(whole, 1, 9)
    feed_both(parts, 1, 5)
    turn_until(worker, lambda: bench.reached(parts, 5))
    worker.close()
    feed_both(parts, 6, 9)
    second = bench.worker()
    turn_until(second, lambda: bench.reached(parts, 9) and bench.reached(whole, 9))
    one, other = record(bench.cluster, whole, 9), record(bench.cluster, parts, 9)
    for name in one.planes:
        np.testing.assert_array_equal(one.planes[name], other.planes[name])
    np.testing.assert_array_equal(one.exceptions, other.exceptions)


def test_a_second_worker_takes_over_and_the_first_cannot_write(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    first = bench.worker()
    feed(feeder, 1, 3)
    turn_until(first, lambda: bench.reached(feeder, 3))
    second = bench.worker()
    feed(feeder, 4, 6)
    turn_until(second, lambda: bench.reached(feeder, 6))  # the first sleeps meanwhile, as under SIGSTOP
    feed(feeder, 7, 9)
    turn_until(first, lambda: bench.reached(feeder, 9))
    assert any("commit" in text for text in bench.said)
    found = bench.position(feeder)
    assert found is not None
    assert (found.sequence, found.applied, found.lost) == (9, 9 * 12, 0)
    assert_equals_model(bench.cluster, feeder, 9)


def test_a_deleted_entry_is_refused_not_lost_until_it_is_sent_again(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    frames = [feeder.make(values(feeder.host, t), float(t), codes=marks(feeder.host, t)) for t in range(1, 6)]
    entries = [feeder.push(data) for data in frames]
    bench.cluster.call(keys.raw(feeder.tag), "XDEL", keys.raw(feeder.tag), entries[2])
    worker = bench.worker()
    turn_until(worker, lambda: (found := bench.position(feeder)) is not None and found.refused == 2)
    found = bench.position(feeder)
    assert found is not None
    assert (found.sequence, found.lost) == (2, 0)
    for data in frames[2:]:
        feeder.push(data)
    turn_until(worker, lambda: bench.reached(feeder, 5))
    assert_equals_model(bench.cluster, feeder, 5)


def test_what_the_probe_no_longer_holds_is_lost_and_counted(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    feed(feeder, 1, 2)
    skipped = [feeder.make(values(feeder.host, t), float(t)) for t in (3, 4)]
    assert len(skipped) == 2
    feeder.push(feeder.make(values(feeder.host, 5), 5.0, floor=5))
    turn_until(worker, lambda: bench.reached(feeder, 5))
    found = bench.position(feeder)
    assert found is not None
    assert (found.lost_frames, found.lost, found.applied) == (2, 24, 36)


def test_duplicates_are_dropped_and_counted(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    data = feeder.make(values(feeder.host, 1), 1.0)
    for _ in range(3):
        feeder.push(data)
    turn_until(worker, lambda: (found := bench.position(feeder)) is not None and found.duplicates == 2)


@pytest.mark.parametrize("reason", ["short", "magic", "crc", "version", "shape", "payload", "partition"])
def test_what_is_no_frame_is_put_aside_with_its_reason(bench: Bench, reason: str) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    good = feeder.make(values(feeder.host, 1), 1.0, codes=marks(feeder.host, 1))
    stranger = Feeder(bench.cluster, host=feeder.host + 1).make(values(feeder.host, 1), 1.0)
    bad = {
        "short": good[:50],
        "magic": b"NOPE" + good[4:],
        "crc": good[:-1] + bytes([good[-1] ^ 1]),
        "version": frame.with_floor(good[:8] + b"\x63" + good[9:], 1),
        "shape": frame.with_floor(good + b"\0" * 8, 1),
        "payload": b"",
        "partition": stranger,
    }[reason]
    key = keys.raw(feeder.tag)
    bench.cluster.call(key, "XADD", key, "*", "x" if reason == "payload" else "f", bad)
    feeder.push(good)
    turn_until(worker, lambda: bench.reached(feeder, 1))
    assert [row.reason for row in rejected_of(bench.cluster, feeder.tag)] == [reason]
    value = bench.cluster.call(keys.commit(feeder.tag), "GET", keys.commit(feeder.tag))
    assert position.decode_commit(value).rejected == 1


def test_what_is_put_aside_is_told_once_of_each_kind_and_counted(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    key = keys.raw(feeder.tag)
    for _ in range(5):
        bench.cluster.call(key, "XADD", key, "*", "f", b"garbage")
    bench.cluster.call(key, "XADD", key, "*", "x", b"garbage")
    feed(feeder, 1, 1)
    turn_until(worker, lambda: bench.reached(feeder, 1))
    assert worker.counters["rejected"] == 6
    assert sum("short" in text for text in bench.said) == 1
    assert sum("payload" in text for text in bench.said) == 1
    assert all(key in text for text in bench.said)


@pytest.mark.parametrize(
    "damage", ["commit", "commit type", "member", "position", "applied type", "record", "names", "record type"]
)
def test_damaged_state_starts_anew_and_holds_nothing_else_up(bench: Bench, damage: str) -> None:
    feeder, other = Feeder(bench.cluster, host=7), Feeder(bench.cluster, host=7 + keys.DEFAULT_PARTITIONS)
    first = bench.worker()
    feed(feeder, 1, 4)
    feed(other, 1, 4)
    turn_until(first, lambda: bench.reached(feeder, 4) and bench.reached(other, 4))
    first.close()
    committed, positions = keys.commit(feeder.tag), keys.applied(feeder.tag)
    member = keys.member(feeder.host, feeder.resource_set)
    newest = keys.smoothed(feeder.tag, feeder.host, feeder.resource_set, 1_000_004 % ZERO)
    names = keys.names(feeder.tag, feeder.host, feeder.resource_set)
    commands: dict[str, list[tuple[object, ...]]] = {
        "commit": [("SET", committed, "garbage")],
        "commit type": [("DEL", committed), ("LPUSH", committed, "x")],
        "member": [("HSET", positions, "who is this", "x")],
        "position": [("HSET", positions, member, "garbage")],
        "applied type": [("DEL", positions), ("SET", positions, "x")],
        "record": [("SET", newest, "garbage")],
        "record type": [("DEL", newest), ("LPUSH", newest, "x")],
        "names": [("SET", names, "garbage")],
    }
    for command in commands[damage]:
        bench.cluster.call(committed, *command)
    second = bench.worker()
    if damage in ("position", "applied type"):  # what the probe does when its position is gone
        feeder.sequence = feeder.made = 0
        feed(feeder, 1, 4)
        if damage == "applied type":
            other.sequence = other.made = 0
            feed(other, 1, 4)
    feed(feeder, 5, 8)
    feed(other, 5, 8)
    turn_until(second, lambda: bench.reached(feeder, 8) and bench.reached(other, 8))
    assert_equals_model(bench.cluster, other, 8)
    assert record(bench.cluster, feeder, 8).sequence == 8
    if damage != "record type":
        assert any("damaged" in text or "removed" in text for text in bench.said)


def test_a_position_of_another_partition_makes_its_host_no_member(bench: Bench) -> None:
    feeder, stranger = Feeder(bench.cluster), Feeder(bench.cluster, host=8)
    assert stranger.tag != feeder.tag
    positions = keys.applied(feeder.tag)
    member = keys.member(stranger.host, stranger.resource_set)
    bench.cluster.call(positions, "HSET", positions, member, position.encode(Position(11, 0, 0, 0.0, 1.0)))
    stray = stranger.make(values(feeder.host, 1), 1.0)
    stranger.tag = feeder.tag  # its frame goes into a stream where it does not belong
    worker = bench.worker()
    stranger.push(stray)
    feed(feeder, 1, 2)
    turn_until(worker, lambda: bench.reached(feeder, 2))
    assert [entry.reason for entry in rejected_of(bench.cluster, feeder.tag)] == ["partition"]
    assert bench.cluster.call(positions, "HGET", positions, member) is None


def test_a_table_names_things_and_is_asked_for_when_it_is_missing(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    feeder.push(feeder.make(values(feeder.host, 1), 1.0))
    turn_until(worker, lambda: bench.reached(feeder, 1))
    found = bench.position(feeder)
    assert found is not None
    assert found.flags & WANT_TABLE
    names = table.Table(
        "web1", "host", 1.0, "procfs", True,
        (Metric("cpu_user_ratio", "ratio", "gauge", 0.0, 1.0, ""),),
        tuple(table.Entity(n, "process", str(n), "", f"p{n}") for n in range(1, 5)),
    )  # fmt: skip
    feeder.push_table(names, 2.0, 2.0)
    feeder.push(feeder.make(values(feeder.host, 3), 3.0))
    turn_until(worker, lambda: bench.reached(feeder, 3))
    found = bench.position(feeder)
    assert found is not None
    assert not found.flags & WANT_TABLE
    key = keys.names(feeder.tag, feeder.host, feeder.resource_set)
    assert table.decode(bench.cluster.call(key, "GET", key)) == names


def test_a_shard_that_came_back_empty_makes_the_worker_load_again(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    feed(feeder, 1, 4)
    turn_until(worker, lambda: bench.reached(feeder, 4))
    flush(bench.cluster, [bench.cluster.owner(keys.raw(feeder.tag))])
    data = feeder.make(values(feeder.host, 5), 5.0, floor=5)
    feeder.push(data)
    turn_until(worker, lambda: bench.reached(feeder, 5))
    found = bench.position(feeder)
    assert found is not None
    assert (found.before, found.applied, found.lost) == (48, 12, 0)


def test_the_stream_is_trimmed_behind_the_cursor(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker(retention_seconds=0.0)
    for tick in range(1, 6):
        feed(feeder, tick, tick)
        turn_until(worker, lambda tick=tick: bench.reached(feeder, tick))  # type: ignore[misc]
    key = keys.raw(feeder.tag)
    turn_until(worker, lambda: bench.cluster.call(key, "XLEN", key) <= 1)


def test_a_slot_that_moves_is_followed(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    feed(feeder, 1, 3)
    turn_until(worker, lambda: bench.reached(feeder, 3))
    key = keys.raw(feeder.tag)
    source = bench.cluster.owner(key)
    target = next(address for address in bench.cluster.masters() if address != source)
    _move_slot(bench.cluster, keys.slot_of(key), source, target)
    bench.cluster.refresh()
    feed(feeder, 4, 6)
    turn_until(worker, lambda: bench.reached(feeder, 6))
    assert_equals_model(bench.cluster, feeder, 6)
    _move_slot(bench.cluster, keys.slot_of(key), target, source)  # the other tests expect even shards
    bench.cluster.refresh()


def test_a_state_of_which_half_has_moved_is_not_taken_for_none(bench: Bench) -> None:
    """While a slot is on its way, a key that is not here any more is answered with ASK, and not with nothing."""
    feeder = Feeder(bench.cluster)
    first = bench.worker()
    feed(feeder, 1, 4)
    turn_until(first, lambda: bench.reached(feeder, 4))
    first.close()
    key = keys.raw(feeder.tag)
    newest = keys.smoothed(feeder.tag, feeder.host, feeder.resource_set, 1_000_004 % ZERO)
    source = bench.cluster.owner(key)
    target = next(address for address in bench.cluster.masters() if address != source)
    here, there = bench.cluster.connect(source), bench.cluster.connect(target)
    slot = keys.slot_of(key)
    there.call("CLUSTER", "SETSLOT", slot, "IMPORTING", here.call("CLUSTER", "MYID"))
    here.call("CLUSTER", "SETSLOT", slot, "MIGRATING", there.call("CLUSTER", "MYID"))
    here.call("MIGRATE", *target, newest, 0, 5000)
    feed(feeder, 5, 5)
    second = bench.worker()
    others = read_layout(bench.cluster).partitions - 1
    turn_until(second, lambda: second.counters["loads"] >= others)
    for _ in range(10):  # several attempts
        second.turn(0.1)
    assert second.counters["loads"] == others
    here.close()
    there.close()
    _move_slot(bench.cluster, slot, source, target)
    bench.cluster.refresh()
    turn_until(second, lambda: bench.reached(feeder, 5))
    assert_equals_model(bench.cluster, feeder, 5)
    _move_slot(bench.cluster, slot, target, source)  # the other tests expect even shards
    bench.cluster.refresh()


def _move_slot(cluster: Cluster, slot: int, source: tuple[str, int], target: tuple[str, int]) -> None:
    """What redis-cli --cluster reshard does for one slot."""
    by_address = {address: cluster.connect(address) for address in cluster.masters()}
    here, there = by_address[source], by_address[target]  # type: ignore[index]
    ids = {address: connection.call("CLUSTER", "MYID") for address, connection in by_address.items()}
    there.call("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])  # type: ignore[index]
    here.call("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])  # type: ignore[index]
    while found := here.call("CLUSTER", "GETKEYSINSLOT", slot, 100):
        here.call("MIGRATE", target[0], target[1], "", 0, 5000, "KEYS", *found)
    for connection in (there, here):
        connection.call("CLUSTER", "SETSLOT", slot, "NODE", ids[target])  # type: ignore[index]
    for connection in by_address.values():
        connection.close()


def test_a_full_shard_pushes_back_and_recovers(start_cluster: Callable[..., object]) -> None:
    running = start_cluster(1)
    cluster = running.connect()  # type: ignore[attr-defined]
    bench = Bench(cluster)
    feeder = Feeder(cluster)
    worker = bench.worker()
    feed(feeder, 1, 3)
    turn_until(worker, lambda: bench.reached(feeder, 3))
    feed(feeder, 4, 5)
    admin = cluster.connect(cluster.masters()[0])
    admin.call("CONFIG", "SET", "maxmemory", 1)
    turn_until(worker, lambda: worker.counters["errors"] > 0)
    admin.call("CONFIG", "SET", "maxmemory", 128 << 20)
    turn_until(worker, lambda: bench.reached(feeder, 5))
    assert_equals_model(bench.cluster, feeder, 5)
    admin.close()
    worker.close()
    cluster.close()
