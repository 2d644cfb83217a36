"""Trims wait for the claims of other readers, within limits; a full shard does not, and says so."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.shards.servers.launch import Shards
from acquisition.shards.topology.migrate import trim_smoothed
from acquisition.shards.topology.nodes import Members
from acquisition.wire import keys, readers
from acquisition.wire.readers import Reader
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.raw_stream import Kept, Trim
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import turn_until
from tests.support.feeder import Feeder
from tests.support.series import applied_sequence, feed
from tests.support.waiting import eventually

SETTINGS = FilterSettings(retention_seconds=10.0, retention_bytes=1000, reader_retention_bytes=4000)


def kept(claim: bytes | None, settings: FilterSettings = SETTINGS) -> Kept:
    """Ten pieces of 100 bytes, a second apart, the last one at 10 s."""
    pieces = Kept(settings)
    for second in range(1, 11):
        pieces.add(b"%d000-0" % second, 100)
    pieces.claim(claim)
    return pieces


def test_nothing_goes_before_the_claims_are_known() -> None:
    pieces = Kept(SETTINGS)
    pieces.add(b"1-0", 100)
    pieces.add(b"2000-0", 100)
    assert pieces.trim(1e6) is None
    pieces.claim(None)
    assert pieces.trim(1e6) == Trim(b"1-0", False)


@pytest.mark.parametrize(
    ("now", "claim", "trim"),
    [
        (11.5, None, Trim(b"1000-0", False)),
        (13.5, None, Trim(b"3000-0", False)),
        (13.5, b"2000-7", Trim(b"2000-0", False)),  # what the reader still wants stays
        (13.5, b"0-0", None),
        (13.5, b"9000-0", Trim(b"3000-0", False)),  # a reader that is ahead keeps nothing shorter than the retention
        (905.5, b"0-0", Trim(b"5000-0", True)),  # after 900 s it is cut all the same, and told
        (905.5, b"5000-0", Trim(b"5000-0", False)),
    ],
)
def test_what_goes(now: float, claim: bytes | None, trim: Trim | None) -> None:
    assert kept(claim).trim(now) == trim


def test_bytes_win_over_seconds_for_readers_too() -> None:
    pieces = kept(b"0-0")
    pieces.add(b"10500-0", 900)
    assert pieces.trim(11.0) is None
    assert not pieces.overflowing
    pieces.add(b"10600-0", 2500)
    assert pieces.overflowing
    assert pieces.trim(11.0) == Trim(b"4000-0", True)
    assert not pieces.overflowing


def test_entries_that_came_together_go_together() -> None:
    pieces = Kept(FilterSettings())
    for number in range(100_000):
        pieces.add(b"%d-0" % (number * 10), 100)  # a thousand seconds
    assert len(pieces._pieces) <= 1001


def claim(cluster: Cluster, feeder: Feeder, cursor: bytes, seconds: float) -> None:
    key = keys.readers(feeder.tag)
    reader = Reader(cursor, round((time.time() + seconds) * 1000))
    cluster.call(key, "HSET", key, "archive", readers.encode(reader))


def length(cluster: Cluster, feeder: Feeder) -> int:
    return int(cluster.call(keys.raw(feeder.tag), "XLEN", keys.raw(feeder.tag)))


def test_filter_keeps_entries_for_live_readers_only(cluster: Cluster) -> None:
    feeder = Feeder(cluster)
    settings = FilterSettings(retention_seconds=0.0, linger_seconds=0.0)
    worker = lone_worker(cluster, read_layout(cluster), settings, report=lambda _: None)
    claim(cluster, feeder, b"0-0", 900.0)

    def one_more() -> None:
        feed(feeder, feeder.sequence + 1, feeder.sequence + 1)
        turn_until(worker, lambda: applied_sequence(cluster, feeder) == feeder.sequence)

    for _ in range(5):
        one_more()
    assert length(cluster, feeder) == 5
    claim(cluster, feeder, b"0-0", -1.0)
    eventually(lambda: length(cluster, feeder) <= 3, meanwhile=one_more)
    assert cluster.call(keys.cut(feeder.tag), "GET", keys.cut(feeder.tag)) is None
    worker.close()


def test_a_key_of_another_type_is_removed(cluster: Cluster) -> None:
    feeder = Feeder(cluster)
    key = keys.readers(feeder.tag)
    cluster.call(key, "SET", key, "nonsense")
    worker = lone_worker(cluster, read_layout(cluster), FilterSettings(), report=lambda _: None)
    feed(feeder, 1, 1)
    turn_until(worker, lambda: applied_sequence(cluster, feeder) == 1)
    worker.close()
    assert not cluster.call(key, "EXISTS", key)


def test_on_a_full_shard_memory_wins_and_the_reader_is_told(start_cluster: Callable[..., Shards]) -> None:
    cluster = start_cluster(1).connect()
    feeder = Feeder(cluster)
    worker = lone_worker(cluster, read_layout(cluster), FilterSettings(), report=lambda _: None)
    feed(feeder, 1, 5)
    claim(cluster, feeder, b"0-0", 900.0)
    connection = cluster.connect(cluster.masters()[0])
    connection.call("CONFIG", "SET", "maxmemory", 1)
    turn_until(worker, lambda: applied_sequence(cluster, feeder) == 5)
    assert length(cluster, feeder) == 0
    mark = readers.decode_cut(connection.call("GET", keys.cut(feeder.tag)))
    assert mark.entries == 5
    worker.close()
    connection.close()
    cluster.close()


def test_a_slot_on_its_way_takes_along_what_a_reader_wants(cluster: Cluster, shards: Shards) -> None:
    feeder = Feeder(cluster)
    worker = lone_worker(cluster, read_layout(cluster), FilterSettings(), report=lambda _: None)
    entries = [feeder.push(feeder.make(np.ones((2, 2)), float(tick))) for tick in range(1, 6)]
    turn_until(worker, lambda: applied_sequence(cluster, feeder) == 5)
    worker.close()
    claim(cluster, feeder, entries[1], 900.0)
    with Members(shards.addresses) as members:
        owner = cluster.owner(keys.raw(feeder.tag))
        node = next(node.id for node in members.look() if node.address == owner)
        slot = keys.slot_of(keys.raw(feeder.tag))
        trim_smoothed(members, node, slot, patient=True)
        assert length(cluster, feeder) == 4
        assert cluster.call(keys.cut(feeder.tag), "GET", keys.cut(feeder.tag)) is None
        trim_smoothed(members, node, slot, patient=False)
    assert length(cluster, feeder) == 1
    mark = readers.decode_cut(cluster.call(keys.cut(feeder.tag), "GET", keys.cut(feeder.tag)))
    assert mark == readers.Cut(entries[4], 3)
