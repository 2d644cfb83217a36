"""The filter worker on real shards: state, order, loss, restart, faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from acquisition.errors import FrameError, ShardError, TemporaryError
from acquisition.link.cluster import Cluster, read_layout
from acquisition.model import codes
from acquisition.model.metric import Metric
from acquisition.wire import commit, frame, keys, position, rejected, smoothed, table
from acquisition.wire.position import WANT_TABLE, Position
from acquisition.wire.rejected import Rejected
from acquisition.wire.smoothed import SmoothedRecord
from experiments.harness import scalar_model
from experiments.harness.scalar_model import Observation
from filters.worker.assembly import lone_worker
from filters.worker.settings import FilterSettings
from filters.worker.worker import Worker
from tests.support.feeder import Feeder
from tests.support.waiting import PATIENCE

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
        key = keys.applied(feeder.tag)
        try:
            data = self.cluster.call(key, "HGET", key, keys.member(feeder.host, feeder.resource_set))
            return None if data is None else position.decode(data)
        except (FrameError, ShardError):  # damaged on purpose, and not yet mended
            return None

    def record(self, feeder: Feeder, tick: int) -> SmoothedRecord:
        key = keys.smoothed(feeder.tag, feeder.host, feeder.resource_set, (1_000_000 + tick) % ZERO)
        return smoothed.decode(self.cluster.call(key, "GET", key))

    def rejected(self, feeder: Feeder) -> list[Rejected]:
        key = keys.rejected(feeder.tag)
        return [rejected.decode(fields) for _, fields in self.cluster.call(key, "XRANGE", key, "-", "+")]


@pytest.fixture
def bench(cluster: Cluster) -> Iterator[Bench]:
    bench = Bench(cluster)
    yield bench
    for worker in bench.workers:
        worker.close()


def turn_until(worker: Worker, done: Callable[[], bool], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "the worker did not get there in time"
        try:
            worker.turn(0.05)
        except (ShardError, TemporaryError) as error:  # a turn never lets trouble with one shard out
            raise AssertionError("the worker gave up") from error


def applied(bench: Bench, feeder: Feeder, sequence: int) -> Callable[[], bool]:
    def reached() -> bool:
        found = bench.position(feeder)
        return found is not None and found.sequence >= sequence

    return reached


def values(tick: int) -> np.ndarray:
    rng = np.random.default_rng(tick)
    return rng.normal(10.0, 3.0, (4, 3))


def marks(tick: int) -> np.ndarray:
    rng = np.random.default_rng(tick + 1000)
    return np.where(rng.random((4, 3)) < 0.2, codes.RANGE, 0).astype(np.uint8)


def feed(feeder: Feeder, first: int, last: int) -> None:
    for tick in range(first, last + 1):
        feeder.push(feeder.make(values(tick), float(tick), codes=marks(tick)))


def expected(tick: int) -> list[list[scalar_model.State]]:
    return [
        [
            scalar_model.run(
                [
                    Observation(float(t), float(np.float32(values(t)[row, column])), int(marks(t)[row, column]))
                    for t in range(1, tick + 1)
                ],
                5.0,
            )
            for column in range(3)
        ]
        for row in range(4)
    ]


def assert_equals_model(record: SmoothedRecord, tick: int) -> None:
    model = expected(tick)
    for row in range(4):
        for column in range(3):
            for name in ("mean", "variance", "trend", "last"):
                want = getattr(model[row][column], name)
                assert record.planes[name][row, column] == pytest.approx(want, rel=1e-4, abs=1e-5, nan_ok=True)
            assert record.codes()[row, column] == model[row][column].code


def test_frames_become_smoothed_records(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    feed(feeder, 1, 8)
    turn_until(worker, applied(bench, feeder, 8))
    assert_equals_model(bench.record(feeder, 8), 8)
    assert_equals_model(bench.record(feeder, 7), 7)
    found = bench.position(feeder)
    assert found is not None
    assert (found.applied, found.lost, found.tick) == (8 * 12, 0, 1_000_008)
    assert found.invalid == sum(int(np.count_nonzero(marks(t))) for t in range(1, 9))


def test_a_restart_in_the_middle_changes_nothing(bench: Bench) -> None:
    whole, parts = Feeder(bench.cluster, host=7), Feeder(bench.cluster, host=8)
    worker = bench.worker()
    feed(whole, 1, 9)
    feed(parts, 1, 5)
    turn_until(worker, applied(bench, parts, 5))
    worker.close()
    feed(parts, 6, 9)
    second = bench.worker()
    turn_until(second, lambda: applied(bench, parts, 9)() and applied(bench, whole, 9)())
    one, other = bench.record(whole, 9), bench.record(parts, 9)
    for name in one.planes:
        np.testing.assert_array_equal(one.planes[name], other.planes[name])
    np.testing.assert_array_equal(one.exceptions, other.exceptions)


def test_a_second_worker_takes_over_and_the_first_cannot_write(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    first = bench.worker()
    feed(feeder, 1, 3)
    turn_until(first, applied(bench, feeder, 3))
    second = bench.worker()
    feed(feeder, 4, 6)
    turn_until(second, applied(bench, feeder, 6))  # the first sleeps meanwhile, as under SIGSTOP
    feed(feeder, 7, 9)
    turn_until(first, applied(bench, feeder, 9))
    assert any("commit" in text for text in bench.said)
    found = bench.position(feeder)
    assert found is not None
    assert (found.sequence, found.applied, found.lost) == (9, 9 * 12, 0)
    assert_equals_model(bench.record(feeder, 9), 9)


def test_a_deleted_entry_is_refused_not_lost_until_it_is_sent_again(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    frames = [feeder.make(values(t), float(t), codes=marks(t)) for t in range(1, 6)]
    entries = [feeder.push(data) for data in frames]
    bench.cluster.call(keys.raw(feeder.tag), "XDEL", keys.raw(feeder.tag), entries[2])
    worker = bench.worker()
    turn_until(worker, lambda: (found := bench.position(feeder)) is not None and found.refused == 2)
    found = bench.position(feeder)
    assert found is not None
    assert (found.sequence, found.lost) == (2, 0)
    for data in frames[2:]:
        feeder.push(data)
    turn_until(worker, applied(bench, feeder, 5))
    assert_equals_model(bench.record(feeder, 5), 5)


def test_what_the_probe_no_longer_holds_is_lost_and_counted(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    feed(feeder, 1, 2)
    skipped = [feeder.make(values(t), float(t)) for t in (3, 4)]
    assert len(skipped) == 2
    feeder.push(feeder.make(values(5), 5.0, floor=5))
    turn_until(worker, applied(bench, feeder, 5))
    found = bench.position(feeder)
    assert found is not None
    assert (found.lost_frames, found.lost, found.applied) == (2, 24, 36)


def test_duplicates_are_dropped_and_counted(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    data = feeder.make(values(1), 1.0)
    for _ in range(3):
        feeder.push(data)
    turn_until(worker, lambda: (found := bench.position(feeder)) is not None and found.duplicates == 2)


@pytest.mark.parametrize("reason", ["short", "magic", "crc", "version", "shape", "payload", "partition"])
def test_what_is_no_frame_is_put_aside_with_its_reason(bench: Bench, reason: str) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    good = feeder.make(values(1), 1.0, codes=marks(1))
    stranger = Feeder(bench.cluster, host=feeder.host + 1).make(values(1), 1.0)
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
    turn_until(worker, applied(bench, feeder, 1))
    assert [row.reason for row in bench.rejected(feeder)] == [reason]
    value = bench.cluster.call(keys.commit(feeder.tag), "GET", keys.commit(feeder.tag))
    assert commit.decode(value).rejected == 1


def test_what_is_put_aside_is_told_once_of_each_kind_and_counted(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    key = keys.raw(feeder.tag)
    for _ in range(5):
        bench.cluster.call(key, "XADD", key, "*", "f", b"garbage")
    bench.cluster.call(key, "XADD", key, "*", "x", b"garbage")
    feed(feeder, 1, 1)
    turn_until(worker, applied(bench, feeder, 1))
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
    turn_until(first, lambda: applied(bench, feeder, 4)() and applied(bench, other, 4)())
    first.close()
    committed, positions = keys.commit(feeder.tag), keys.applied(feeder.tag)
    member = keys.member(feeder.host, feeder.resource_set)
    record = keys.smoothed(feeder.tag, feeder.host, feeder.resource_set, 1_000_004 % ZERO)
    names = keys.names(feeder.tag, feeder.host, feeder.resource_set)
    commands: dict[str, list[tuple[object, ...]]] = {
        "commit": [("SET", committed, "garbage")],
        "commit type": [("DEL", committed), ("LPUSH", committed, "x")],
        "member": [("HSET", positions, "who is this", "x")],
        "position": [("HSET", positions, member, "garbage")],
        "applied type": [("DEL", positions), ("SET", positions, "x")],
        "record": [("SET", record, "garbage")],
        "record type": [("DEL", record), ("LPUSH", record, "x")],
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
    turn_until(second, lambda: applied(bench, feeder, 8)() and applied(bench, other, 8)())
    assert_equals_model(bench.record(other, 8), 8)
    assert bench.record(feeder, 8).sequence == 8
    if damage != "record type":
        assert any("damaged" in text or "removed" in text for text in bench.said)


def test_a_position_of_another_partition_makes_its_host_no_member(bench: Bench) -> None:
    feeder, stranger = Feeder(bench.cluster), Feeder(bench.cluster, host=8)
    assert stranger.tag != feeder.tag
    positions = keys.applied(feeder.tag)
    member = keys.member(stranger.host, stranger.resource_set)
    bench.cluster.call(positions, "HSET", positions, member, position.encode(Position(11, 0, 0, 0.0, 1.0)))
    stray = stranger.make(values(1), 1.0)
    stranger.tag = feeder.tag  # its frame goes into a stream where it does not belong
    worker = bench.worker()
    stranger.push(stray)
    feed(feeder, 1, 2)
    turn_until(worker, applied(bench, feeder, 2))
    assert [entry.reason for entry in bench.rejected(feeder)] == ["partition"]
    assert bench.cluster.call(positions, "HGET", positions, member) is None


def test_a_table_names_things_and_is_asked_for_when_it_is_missing(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    feeder.push(feeder.make(values(1), 1.0))
    turn_until(worker, applied(bench, feeder, 1))
    found = bench.position(feeder)
    assert found is not None
    assert found.flags & WANT_TABLE
    names = table.Table(
        "web1", "host", 1.0, "procfs", True,
        (Metric("cpu_user_ratio", "ratio", "gauge", 0.0, 1.0, ""),),
        tuple(table.Entity(n, "process", str(n), "", f"p{n}") for n in range(1, 5)),
    )  # fmt: skip
    feeder.sequence += 1
    payload = table.encode(names)
    feeder.push(
        frame.encode(
            frame.Frame(
                frame.KIND_TABLE, 1, feeder.host, feeder.resource_set, 0, 0, 1.0, feeder.epoch,
                feeder.sequence, 1, feeder.made, 2, 2.0, 2.0, payload=payload,
            )
        )
    )  # fmt: skip
    feeder.push(feeder.make(values(3), 3.0))
    turn_until(worker, applied(bench, feeder, 3))
    found = bench.position(feeder)
    assert found is not None
    assert not found.flags & WANT_TABLE
    key = keys.names(feeder.tag, feeder.host, feeder.resource_set)
    assert table.decode(bench.cluster.call(key, "GET", key)) == names


def test_a_table_that_cannot_be_read_stops_nothing(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    feeder.push(feeder.make(values(1), 1.0))
    feeder.sequence += 1
    broken = frame.Frame(
        frame.KIND_TABLE, 1, feeder.host, feeder.resource_set, 0, 0, 1.0, feeder.epoch, feeder.sequence, 1,
        feeder.made, 2, 2.0, 2.0, payload=b"{not json",
    )  # fmt: skip
    feeder.push(frame.encode(broken))
    feeder.push(feeder.make(values(3), 3.0))
    turn_until(worker, applied(bench, feeder, 3))
    assert [row.reason for row in bench.rejected(feeder)] == ["payload"]


def test_a_shard_that_came_back_empty_makes_the_worker_load_again(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    feed(feeder, 1, 4)
    turn_until(worker, applied(bench, feeder, 4))
    connection = bench.cluster.connect(bench.cluster.owner(keys.raw(feeder.tag)))
    connection.call("FLUSHALL")
    connection.close()
    data = feeder.make(values(5), 5.0, floor=5)
    feeder.push(data)
    turn_until(worker, applied(bench, feeder, 5))
    found = bench.position(feeder)
    assert found is not None
    assert (found.before, found.applied, found.lost) == (48, 12, 0)


def test_the_stream_is_trimmed_behind_the_cursor(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker(retention_seconds=0.0)
    for tick in range(1, 6):
        feed(feeder, tick, tick)
        turn_until(worker, applied(bench, feeder, tick))
    key = keys.raw(feeder.tag)
    turn_until(worker, lambda: bench.cluster.call(key, "XLEN", key) <= 1)


def test_hosts_that_fell_silent_are_forgotten(bench: Bench) -> None:
    feeder, other = Feeder(bench.cluster, host=7), Feeder(bench.cluster, host=7 + keys.DEFAULT_PARTITIONS)
    worker = bench.worker(expire_seconds=1.0)
    feed(feeder, 1, 1)
    turn_until(worker, applied(bench, feeder, 1))
    ticks = iter(range(1, 10_000))

    def gone() -> bool:
        feed(other, tick := next(ticks), tick)
        return bench.position(feeder) is None

    turn_until(worker, gone, seconds=15.0)
    assert bench.position(other) is not None


def test_a_slot_that_moves_is_followed(bench: Bench) -> None:
    feeder = Feeder(bench.cluster)
    worker = bench.worker()
    feed(feeder, 1, 3)
    turn_until(worker, applied(bench, feeder, 3))
    key = keys.raw(feeder.tag)
    source = bench.cluster.owner(key)
    target = next(address for address in bench.cluster.masters() if address != source)
    _move_slot(bench.cluster, keys.slot_of(key), source, target)
    bench.cluster.refresh()
    feed(feeder, 4, 6)
    turn_until(worker, applied(bench, feeder, 6))
    assert_equals_model(bench.record(feeder, 6), 6)
    _move_slot(bench.cluster, keys.slot_of(key), target, source)  # the other tests expect even shards
    bench.cluster.refresh()


def test_a_state_of_which_half_has_moved_is_not_taken_for_none(bench: Bench) -> None:
    """While a slot is on its way, a key that is not here any more is answered with ASK, and not with nothing."""
    feeder = Feeder(bench.cluster)
    first = bench.worker()
    feed(feeder, 1, 4)
    turn_until(first, applied(bench, feeder, 4))
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
    turn_until(second, applied(bench, feeder, 5))
    assert_equals_model(bench.record(feeder, 5), 5)
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
    turn_until(worker, applied(bench, feeder, 3))
    feed(feeder, 4, 5)
    admin = cluster.connect(cluster.masters()[0])
    admin.call("CONFIG", "SET", "maxmemory", 1)
    turn_until(worker, lambda: worker.counters["errors"] > 0)
    admin.call("CONFIG", "SET", "maxmemory", 128 << 20)
    turn_until(worker, applied(bench, feeder, 5))
    assert_equals_model(bench.record(feeder, 5), 5)
    admin.close()
    worker.close()
    cluster.close()
