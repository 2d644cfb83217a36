"""A reading that finds nothing new is the last one with other ages; nothing older than a commit is ever shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.link.cluster import Batch, Cluster
from acquisition.link.resp import Address
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.reading.heads import judge
from acquisition.snapshot.reading.positions import PositionReader
from acquisition.snapshot.reading.records import Due, begin, judge_coherent
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.states import CURRENT, DOWN, LATE, UNKNOWN
from acquisition.wire import keys, position
from acquisition.wire.layout import Layout
from acquisition.wire.position import Commit, Position
from tests.support.scene import ALL, METRICS, Scene, entities, record

TICK = 999_999
HOSTS = ("a", "b", "c")
SET = resource_set_id("processes")


class Counted(Cluster):
    """A cluster that counts the commands that it asks, and the rounds of questions."""

    commands = rounds = 0

    def ask(self, batch: Batch) -> list[Any]:
        self.rounds += 1
        self.commands += len(batch.commands)
        return super().ask(batch)


class Clock:
    now = TICK + 1.75

    def __call__(self) -> float:
        return self.now


class World:
    """A scene whose partitions have commits, and a reader with a clock."""

    def __init__(self, cluster: Cluster, reader: SnapshotReader, clock: Clock) -> None:
        self.scene, self.reader, self.clock, self.number = Scene(cluster), reader, clock, 0
        for tag in self.scene.tags:
            self.commit(tag)
        self.fill(HOSTS, [TICK - 1, TICK, TICK + 1])

    def commit(self, tag: str) -> None:
        self.number += 1
        key = keys.commit(tag)
        self.scene.put(key, "SET", key, position.encode_commit(Commit(b"c%d" % self.number, ALL, 0)))

    def fill(self, hosts: Sequence[str], ticks: Sequence[int]) -> None:
        for host in hosts:
            self.scene.host(host, ticks)
            self.commit(self.scene.tag(host_id(host)))

    def read(self, reading: str = "coherent") -> tuple[Snapshot, int]:
        """A snapshot, and how many commands it took."""
        assert isinstance(self.reader.cluster, Counted)
        before = self.reader.cluster.commands
        return getattr(self.reader, reading)(), self.reader.cluster.commands - before


@pytest.fixture
def world(shards: Shards, cluster: Cluster) -> Iterator[World]:
    clock = Clock()
    with SnapshotReader(Counted([Address(*each) for each in shards.addresses]), clock=clock) as reader:
        yield World(cluster, reader, clock)


def means(snapshot: Snapshot) -> dict[str, list[list[float]]]:
    return {block.host: block.plane("mean").tolist() for block in snapshot.blocks if block.has_values}


def states(snapshot: Snapshot) -> dict[str, str]:
    return {block.host: block.state for block in snapshot.blocks}


@pytest.mark.parametrize("reading", ["coherent", "latest"])
def test_an_unchanged_reading_asks_for_commit_ids_alone(world: World, reading: str) -> None:
    first, _ = world.read(reading)
    world.clock.now += 0.125
    again, commands = world.read(reading)
    if reading == "coherent":
        assert commands == len(world.scene.tags)
    assert means(again) == means(first) == means(world.read(reading)[0])
    assert [block.age_seconds for block in again.blocks] == [block.age_seconds + 0.125 for block in first.blocks]
    assert states(again) == dict.fromkeys(HOSTS, CURRENT)
    assert [row.entity for row in again.rows()] == [row.entity for row in first.rows()]


def test_the_second_reading_asks_once(world: World) -> None:
    def rounds() -> int:
        """How often it asks for one whole reading, in which every host must be current."""
        assert isinstance(world.reader.cluster, Counted)
        before = world.reader.cluster.rounds
        assert set(states(world.read()[0]).values()) == {CURRENT}
        return world.reader.cluster.rounds - before

    assert rounds() > 1
    assert rounds() == 1
    world.clock.now += 1.0  # another tick, another slot
    assert rounds() == 1
    world.fill(["d"], [TICK, TICK + 1])  # who is new is asked for
    assert rounds() > 1
    assert rounds() == 1


def test_commit_is_seen_at_once_and_rereads_only_its_partition(world: World) -> None:
    world.read()
    world.fill(["b"], [TICK - 2, TICK - 1])  # it went back: the tick is no longer there
    key = world.scene.record_key("b", "processes", TICK)
    world.scene.put(key, "DEL", key)
    snapshot, commands = world.read()
    assert states(snapshot) == {"a": CURRENT, "b": LATE, "c": CURRENT}
    assert commands < len(world.scene.tags) + 15
    world.fill(["b"], [TICK - 1, TICK, TICK + 1])
    assert states(world.read()[0]) == dict.fromkeys(HOSTS, CURRENT)


def test_the_next_tick_is_read_whole(world: World) -> None:
    world.read()
    for step in range(1, 6):
        world.clock.now += 1.0
        world.fill(HOSTS, [TICK + step - 1, TICK + step, TICK + step + 1])
        snapshot, _ = world.read()
        assert {block.tick for block in snapshot.blocks} == {TICK + step}
        assert states(snapshot) == dict.fromkeys(HOSTS, CURRENT)
        assert [block.host for block in snapshot.blocks] == sorted(HOSTS)
        assert [row.host for row in snapshot.rows(entity="init", metric="cpu_ratio")] == sorted(HOSTS)


@pytest.mark.parametrize(("others", "end"), [((), UNKNOWN), (("b", "c"), DOWN)])
def test_hosts_become_late_and_down_although_nothing_is_committed(
    world: World, others: tuple[str, ...], end: str
) -> None:
    world.read()
    seen = []
    for step in range(60):
        world.clock.now += 0.25
        if step % 4 == 3:
            world.fill(others, [TICK + step // 4, TICK + step // 4 + 1, TICK + step // 4 + 2])
        seen.append(states(world.read()[0])["a"])
    assert [state for number, state in enumerate(seen) if not number or state != seen[number - 1]] == [
        CURRENT, LATE, end,
    ]  # fmt: skip


def test_earlier_snapshots_stay_as_they_were(world: World) -> None:
    first, _ = world.read()
    ages = [block.age_seconds for block in first.blocks]
    world.clock.now += 0.25
    second, _ = world.read()
    world.clock.now += 20.0
    world.read()
    assert [block.age_seconds for block in first.blocks] == ages
    assert [block.age_seconds for block in second.blocks] == [age + 0.25 for age in ages]
    assert states(second) == dict.fromkeys(HOSTS, CURRENT)


def test_partitions_that_are_emptied_are_seen(world: World) -> None:
    world.read()
    tag = world.scene.tag(host_id("a"))
    for key in (keys.commit(tag), keys.applied(tag)):
        world.scene.put(key, "DEL", key)
    assert "shards have just lost" in " ".join(world.read()[0].errors)
    world.clock.now += 100.0
    assert set(states(world.read()[0])) == {"b", "c"}


def test_names_that_come_later_are_used_at_once(world: World) -> None:
    key = keys.names(world.scene.tag(host_id("a")), host_id("a"), SET)
    table = world.scene.cluster.call(key, "GET", key)
    world.scene.put(key, "DEL", key)
    assert f"{host_id('a'):016x}" in states(world.read()[0])
    world.scene.put(key, "SET", key, table)
    assert "a" in states(world.read()[0])


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_judged_side_by_side_is_as_judged_one_by_one(data: st.DataObject) -> None:
    """For records and positions of all kinds: who is current, and with what."""
    due, layout = Due(TICK + 1.75, 0.5, 3), Layout()
    replies: list[list[bytes]] = [[] for _ in layout.tags]
    records: dict[str, tuple[int, bytes | None]] = {}
    for host in range(3):
        tick = TICK + data.draw(st.sampled_from([-1, 0, 0, 0, 1]))
        ids = [row.id for row in entities("x", ["p"] * data.draw(st.integers(0, 3)))]
        mean = np.ones((len(ids), len(METRICS)))
        marked = ((data.draw(st.integers(0, 7)), 3, 1.0),) if data.draw(st.booleans()) else ()
        filtered = data.draw(st.sampled_from([None, None, TICK - 2.0, TICK - 1.0]))
        value = record(host, SET, ids, mean, tick, exceptions=marked, filtered=filtered) if ids else b""
        if value and data.draw(st.booleans()):
            at = data.draw(st.integers(0, len(value) - 1))
            value = data.draw(
                st.sampled_from([value[:at], value[:at] + bytes((data.draw(st.integers(0, 255)),)) + value[at + 1 :]])
            )
        epoch, interval = data.draw(st.sampled_from([5, 5, 6])), data.draw(st.sampled_from([1.0, 1.0, 0.0, 2.9e-35]))
        newest = position.encode(Position(epoch, 1, tick, tick + 0.5, interval))
        tag = layout.tag_of(host)
        replies[layout.tags.index(tag)] = [keys.member(host, SET).encode(), newest]
        records[keys.smoothed(tag, host, SET, 0)[:-1]] = (TICK % 3, value or None)
    table, errors = PositionReader(layout).take(replies, due.now)
    assert not errors
    values = [records[member.prefix][1] for member in table.members]
    current = judge(table, values, due).current()
    for row, (member, place) in enumerate(table.all_places()):
        found = current.get(row)
        block = begin(member, place)
        if not block.delay and -(1 << 62) < due.tick(block.interval) < 1 << 62:
            judge_coherent(block, records[member.prefix][1], due.tick(block.interval), due)
        assert (found is not None) == (block.state == CURRENT)
        if found is not None:
            assert _told(found) == _told(block)


def _told(block: Block) -> tuple[Any, ...]:
    return (
        block.host_id, block.set_id, block.state, block.reason, block.damage, block.tick, block.wall, block.filtered,
        block.interval, block.head, block.position, block.raw_ids, block.schema, block.shape, block.has_values,
        repr(block.plane("mean").tolist()), block.codes().tolist(), block.age_seconds, block.unheard, block.unreachable,
    )  # fmt: skip
