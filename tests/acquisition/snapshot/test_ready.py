"""A reader whose thread reads ahead says what a new reader says, and leaves little to be read to who asks."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest

from acquisition.errors import ShardError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address
from acquisition.shards.launch import Shards
from acquisition.snapshot import ReadyReader, SnapshotReader
from acquisition.snapshot.judgement import Due
from tests.acquisition.snapshot.test_changes import HOSTS, Asked, World, told, vm
from tests.support.waiting import eventually


@pytest.fixture
def world(shards: Shards, cluster: Cluster) -> Iterator[World]:
    asked = Asked([Address(*each) for each in shards.addresses])
    yield World(cluster, asked)
    asked.close()


def test_what_is_read_ahead_is_what_a_new_reader_finds(shards: Shards, world: World) -> None:
    chance = random.Random(3)
    with SnapshotReader(shards.connect(), clock=world.now) as reader, ReadyReader(reader, every=0.001) as ready:
        for step in range(30):
            host = chance.choice(HOSTS)
            if step % 3 == 1:
                world.vms[host].append(vm(host, f"{host}-new-{step}"))
                world.name(host)
            elif step % 7 == 2:
                world.epochs[host] += 1
            world.next([each for each in HOSTS if step % 5 or each != host])
            assert told(ready.coherent()) == told(world.by_a_new_reader()), step


def test_who_asks_behind_the_thread_reads_only_commit_ids(shards: Shards, world: World) -> None:
    asked = Asked([Address(*each) for each in shards.addresses])
    with SnapshotReader(asked, clock=world.now) as reader:
        with ReadyReader(reader, every=0.001):
            world.next()
            eventually(lambda: any(words[0] == "MGET" for words in asked.commands))
            asked.commands.clear()
            eventually(lambda: len(asked.commands) > 2 * len(world.scene.tags))
        asked.commands.clear()
        assert {block.tick for block in reader.coherent().blocks} == {world.tick}
        assert [words[0] for words in asked.commands] == ["GET"] * len(world.scene.tags)


def test_what_cannot_be_read_is_told_to_who_asks() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with SnapshotReader.connect([address]) as reader, ReadyReader(reader, every=0.001) as ready:
            for _ in range(3):
                with pytest.raises(ShardError, match=address):
                    ready.coherent()


def test_only_what_is_taken_is_read(shards: Shards, world: World) -> None:
    with SnapshotReader(shards.connect(), clock=world.now) as reader:
        wanted = reader.coherent().blocks[0].host_id
        with ReadyReader(reader, lambda host, _: host == wanted) as ready:
            assert [block.host_id for block in ready.coherent().blocks] == [wanted]
            assert {block.host_id for block in ready.coherent().unread} == {
                block.host_id for block in world.by_a_new_reader().blocks
            } - {wanted}


@pytest.mark.parametrize("interval", [0.1, 1.0, 5.0, 0.10000000149])
@pytest.mark.parametrize("now", [999_999.0, 1_795_404_456.575])
def test_a_tick_is_due_at_the_moment_that_is_told(now: float, interval: float) -> None:
    due = Due(now, 0.5, 3)
    moment = due.next_moment(interval)
    assert now < moment <= now + interval + 1e-6
    assert Due(moment - 0.01, 0.5, 3).tick(interval) == due.tick(interval) or moment - now < 0.01
    assert Due(moment + 0.001, 0.5, 3).tick(interval) == due.tick(interval) + 1
