"""A reading looks at what is not as in the one before, and finds what a reader finds that looks at everything."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from acquisition.link.cluster import Batch, Cluster
from acquisition.link.resp import Address
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import resource_set_id
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.wire import keys
from acquisition.wire.position import Position
from acquisition.wire.table import Entity
from tests.support.scene import METRICS, Scene, record

TICK = 999_999
HOSTS = ("a", "b", "c", "d", "e")
SET = resource_set_id("vms")


class Asked(Cluster):
    """A cluster that notes the commands that it asks."""

    def __init__(self, seeds: Sequence[Address]) -> None:
        super().__init__(seeds)
        self.commands: list[tuple[Any, ...]] = []

    def ask(self, batch: Batch) -> list[Any]:
        self.commands += [command for _, command in batch.commands]
        return super().ask(batch)


class World:
    """Hosts with VMs, one tick after another; a reader that looks on, and others that have just come."""

    def __init__(self, cluster: Cluster, asked: Asked) -> None:
        self.scene, self.asked, self.tick = Scene(cluster), asked, TICK
        self.vms = {host: [vm(host, f"{host}-1"), vm(host, f"{host}-2")] for host in HOSTS}
        self.epochs = dict.fromkeys(HOSTS, 5)
        for tag in self.scene.tags:  # each has a commit
            self.scene.put(keys.names(tag, 0, 0), "DEL", keys.names(tag, 0, 0))
        self.reader = SnapshotReader(asked, clock=self.now)
        for host in HOSTS:
            self.name(host)
        self.next()

    def now(self) -> float:
        return self.tick + 1.75

    def name(self, host: str) -> None:
        self.scene.names(host, "vms", self.vms[host])

    def next(self, hosts: Sequence[str] = HOSTS) -> None:
        """Another tick, in which these hosts have sampled."""
        self.tick += 1
        for host in hosts:
            number, rows = host_id(host), self.vms[host]
            mean = np.arange(len(rows))[:, None] * 10.0 + np.arange(len(METRICS)) + self.tick % 1000
            data = record(number, SET, [row.id for row in rows], mean, self.tick, epoch=self.epochs[host])
            self.scene.record(host, "vms", data, self.tick)
            self.scene.position(host, "vms", Position(self.epochs[host], self.tick, self.tick, self.tick + 0.5, 1.0))

    def by_a_new_reader(self) -> Snapshot:
        return SnapshotReader(self.asked, clock=self.now).coherent()


def vm(host: str, uuid: str) -> Entity:
    return Entity(entity_id("vm", uuid, host), "vm", uuid, host, f"name of {uuid}")


@pytest.fixture
def world(shards: Shards, cluster: Cluster) -> Iterator[World]:
    asked = Asked([Address(*each) for each in shards.addresses])
    yield World(cluster, asked)
    asked.close()


def told(snapshot: Snapshot) -> tuple[Any, ...]:
    blocks = [
        (
            block.host, block.resource_set, block.state, block.reason, block.tick, block.wall, block.age_seconds,
            block.position, block.raw_ids, block.schema, block.entities, repr(block.plane("mean").tolist()),
        )
        for block in snapshot.blocks
    ]  # fmt: skip
    places = {
        name: (place.host, place.entity_id, place.state, place.other_hosts)
        for name, place in snapshot.placements.all.items()
    }
    return blocks, places, snapshot.errors, snapshot.began, snapshot.blind, list(snapshot.rows())


def test_what_a_reader_finds_that_looks_on_is_what_a_new_one_finds(world: World) -> None:
    chance = random.Random(7)
    for step in range(90):
        host = chance.choice(HOSTS)
        what = chance.choice(["nothing", "comes", "goes", "migrates", "late", "epoch", "unnamed", "again"])
        if what == "comes":
            world.vms[host].append(vm(host, f"{host}-new-{step}"))
            world.name(host)
        elif what == "goes" and len(world.vms[host]) > 1:
            world.vms[host].pop(chance.randrange(len(world.vms[host])))
            world.name(host)
        elif what == "migrates":
            uuid = chance.choice(world.vms[chance.choice(HOSTS)]).stable
            world.vms[host] = [row for row in world.vms[host] if row.stable != uuid] + [vm(host, uuid)]
            world.name(host)
        elif what == "epoch":
            world.epochs[host] += 1
        elif what == "unnamed":
            world.vms[host].append(vm(host, f"{host}-unnamed-{step}"))
        if what != "again":
            world.next([each for each in HOSTS if what != "late" or each != host])
        assert told(world.reader.coherent()) == told(world.by_a_new_reader()), (step, what)


def test_a_vm_that_comes_costs_the_table_of_its_host_alone(world: World) -> None:
    world.reader.coherent()
    world.next()
    world.reader.coherent()
    world.vms["b"].append(vm("b", "another"))
    world.name("b")
    world.next()
    world.asked.commands.clear()
    snapshot = world.reader.coherent()
    tables = [command for command in world.asked.commands if str(command[1]).startswith("names:")]
    number = host_id("b")
    assert tables == [("GET", keys.names(world.scene.tag(number), number, SET))]
    assert "another" in [row.stable for row in snapshot.rows(host="b")]


def test_what_has_no_name_yet_is_asked_for_until_it_comes(world: World) -> None:
    for _ in range(2):
        world.reader.coherent()
        world.next()
    world.vms["c"].append(vm("c", "another"))
    world.next()
    for _ in range(3):
        assert "another" not in [row.stable for row in world.reader.coherent().rows(host="c")]
    world.name("c")
    assert "another" in [row.stable for row in world.reader.coherent().rows(host="c")]
    world.asked.commands.clear()
    world.reader.coherent()
    assert {command[0] for command in world.asked.commands} == {"GET"}
    assert len(world.asked.commands) == len(world.scene.tags)
