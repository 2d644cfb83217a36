"""What was read just before a tick was due is what is told when it is, as far as nothing was committed meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address
from acquisition.model.identity import host_id
from acquisition.shards.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.wire import keys
from tests.acquisition.snapshot.test_changes import HOSTS, Asked, World, told, vm


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def world(shards: Shards, cluster: Cluster) -> Iterator[World]:
    asked = Asked([Address(*each) for each in shards.addresses])
    yield World(cluster, asked)
    asked.close()


def send(world: World, hosts: Sequence[str]) -> None:
    """What these hosts send at the tick of the others."""
    world.tick -= 1
    world.next(hosts)


def partitions(world: World, hosts: Sequence[str]) -> int:
    return len({keys.partition_of(host_id(host), len(world.scene.tags)) for host in hosts})


def test_when_a_tick_is_due_only_what_has_come_since_is_read(shards: Shards, world: World) -> None:
    asked, clock = Asked([Address(*each) for each in shards.addresses]), Clock()
    clock.now = world.now()
    with SnapshotReader(asked, clock=clock) as reader:
        reader.coherent()
        world.next(HOSTS[1:])
        reader.look_ahead()
        assert reader.coherent().blocks[0].tick == world.tick - 1
        send(world, HOSTS[:1])
        clock.now = world.now()
        asked.commands.clear()
        assert told(reader.coherent()) == told(world.by_a_new_reader())
        words = [each[0] for each in asked.commands]
        assert words.count("MGET") == partitions(world, HOSTS[:1])
        asked.commands.clear()
        reader.coherent()
        assert [each[0] for each in asked.commands] == ["GET"] * len(world.scene.tags)


def test_who_looks_ahead_finds_what_a_new_reader_finds(shards: Shards, world: World) -> None:
    chance, clock = random.Random(3), Clock()
    clock.now = world.now()
    with SnapshotReader(shards.connect(), clock=clock) as reader:
        for step in range(60):
            host = chance.choice(HOSTS)
            if step % 4 == 1:
                world.vms[host].append(vm(host, f"{host}-new-{step}"))
                world.name(host)
            elif step % 7 == 2:
                world.epochs[host] += 1
            early = [each for each in HOSTS if chance.random() < 0.7]
            world.next(early)
            for _ in range(chance.randrange(3)):
                reader.look_ahead()
            if chance.random() < 0.3:
                reader.coherent()
            send(world, [each for each in HOSTS if each not in early and chance.random() < 0.9])
            clock.now = world.now()
            assert told(reader.coherent()) == told(world.by_a_new_reader()), step
            assert told(reader.coherent()) == told(world.by_a_new_reader()), step
