"""The records of hosts side by side: never anything else than what lies under their own keys."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable

import hiredis
import pytest

from acquisition.model.metric import resource_set_id
from acquisition.wire import host_records, keys, smoothed
from filters.worker.host_records import SETTLED_SECONDS, HostRecords
from filters.worker.record import set_prefix

KEEP, TAG = 3, "0.1"
OWN, VMS = resource_set_id("host"), resource_set_id("vms")


class Shard:
    """What a shard would hold after these commits."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.deleted = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        """Another worker takes over, and hears that somebody asks."""
        self.worker = HostRecords(TAG, KEEP, 600.0)
        self.worker.hear(True)

    def commit(self, records: Iterable[tuple[int, int, int]], now: float, full: bool = False) -> None:
        """Records of (host, resource set, tick), each of other bytes."""
        given = {}
        for host, resource_set, tick in records:
            key = keys.smoothed(TAG, host, resource_set, tick % KEEP)
            record = _record(host, resource_set, tick)
            given[set_prefix(key)] = set_prefix(key) + b"%d\r\n%b\r\n$2\r\nEX\r\n$3\r\n600\r\n" % (len(record), record)
        reader = hiredis.Reader()
        for command in (*given.values(), *self.worker.commands(given, now, full)):
            reader.feed(command)
            self._run(reader.gets())

    def _run(self, words: list[bytes]) -> None:
        key = words[1].decode()
        if words[0] == b"SET":
            self.values[key] = words[2]
        else:
            assert words[0] == b"DEL"
            self.deleted += sum(self.values.pop(each.decode(), None) is not None for each in words[1:])

    def side_by_side(self, slot: int) -> dict[int, bytes]:
        """The records of a slot by host; they are those that lie under the hosts' own keys."""
        data = self.values.get(keys.hosts(TAG, slot))
        found = {_host(record): record for record in host_records.decode(data).records()} if data else {}
        assert all(self.values[keys.smoothed(TAG, host, OWN, slot)] == record for host, record in found.items())
        return found


def _host(record: bytes) -> int:
    return int.from_bytes(record[smoothed.HOST_AT : smoothed.HOST_AT + 8], "little")


def _record(host: int, resource_set: int, tick: int) -> bytes:
    head = smoothed.HEADER.pack(
        smoothed.MAGIC, smoothed.VERSION, 1, 1, 1, 0, host, resource_set, 1, 1.0, 0, b"\1" + bytes(7), 1, tick, tick,
        float(tick), 0.0, 0.0,
    )  # fmt: skip
    return head + struct.pack("<Qf", host, random.random())


def tick_of(tick: int, hosts: Iterable[int] = range(10)) -> list[tuple[int, int, int]]:
    return [(host, OWN, tick) for host in hosts]


def test_a_tick_is_written_once_it_has_settled() -> None:
    shard = Shard()
    shard.commit(tick_of(7, range(5)), 0.0)
    shard.commit([*tick_of(7, range(5, 10)), (3, VMS, 7)], 0.1)
    assert not shard.side_by_side(1)
    shard.commit([(3, VMS, 8)], 0.1 + SETTLED_SECONDS)
    assert shard.side_by_side(1).keys() == set(range(10))
    value = shard.values[keys.hosts(TAG, 1)]
    shard.commit([(3, VMS, 9)], 9.0)
    assert shard.values[keys.hosts(TAG, 1)] is value


def test_who_is_late_is_not_among_them_and_disturbs_nobody() -> None:
    shard = Shard()
    shard.commit(tick_of(7), 0.0)
    shard.commit([], 1.0)
    shard.commit(tick_of(7, [77]), 1.1)
    assert shard.side_by_side(1).keys() == set(range(10))
    shard.commit([], 9.0)
    assert shard.side_by_side(1).keys() == set(range(10))


@pytest.mark.parametrize("tick", [7, 10])
def test_a_record_that_is_written_again_ends_them(tick: int) -> None:
    shard = Shard()
    shard.commit(tick_of(7), 0.0)
    shard.commit([], 1.0)
    shard.commit(tick_of(tick, [4]), 2.0)
    assert not shard.side_by_side(1)
    assert shard.deleted == 1


def test_another_worker_knows_nothing_and_deletes_what_may_be_there() -> None:
    shard = Shard()
    shard.commit(tick_of(7), 0.0)
    shard.commit([], 1.0)
    shard.begin_anew()
    shard.commit([(3, VMS, 8)], 2.0)
    assert not shard.side_by_side(1)


def test_nothing_is_written_while_nobody_asks_and_nothing_old_stays() -> None:
    shard = Shard()
    shard.commit(tick_of(7), 0.0)
    shard.commit(tick_of(8), 1.0)
    assert shard.side_by_side(1)
    shard.worker.hear(False)
    shard.commit([], 2.0)
    assert not shard.side_by_side(2)
    shard.commit(tick_of(9), 2.0)
    shard.commit(tick_of(10), 3.0)
    assert not shard.side_by_side(1)
    shard.commit([], 4.0)
    assert not any(shard.side_by_side(slot) for slot in range(KEEP))
    shard.worker.hear(True)
    shard.commit(tick_of(11), 5.0)
    shard.commit([], 6.0)
    assert shard.side_by_side(2)


def test_few_hosts_are_as_well_asked_for_alone() -> None:
    shard = Shard()
    shard.commit(tick_of(7, range(host_records.FEWEST - 1)), 0.0)
    shard.commit([], 1.0)
    assert not shard.side_by_side(1)


def test_a_full_shard_takes_no_more() -> None:
    shard = Shard()
    shard.commit(tick_of(7), 0.0)
    shard.commit(tick_of(8), 1.0, full=True)
    assert not shard.side_by_side(1)


def test_whatever_comes_they_are_the_records_of_the_own_keys() -> None:
    chance, shard, now = random.Random(5), Shard(), 0.0
    written = 0
    for _ in range(3000):
        now += chance.choice([0.01, 0.05, 0.3])
        tick = int(now / 3)
        some = [
            (chance.randrange(24), chance.choice([OWN, OWN, OWN, VMS]), max(0, tick - chance.choice([0] * 40 + [1, 3])))
            for _ in range(chance.choice([0, 1, 12, 20]))
        ]
        if chance.random() < 0.01:
            shard.worker.hear(chance.random() < 0.5)
        if chance.random() < 0.01:
            shard.begin_anew()
        shard.commit(some, now)
        written += bool([slot for slot in range(KEEP) if shard.side_by_side(slot)])
    assert written > 100
