"""Snapshots of a data center whose VMs migrate under faults: real shards, the real filter, every tick checked."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from acquisition.errors import ShardError, TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout, write_layout
from acquisition.link.resp import Address, Connection
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.states import CURRENT, DOWN, LATE, UNKNOWN
from acquisition.snapshot.vms.placement import ARRIVING, MIGRATING, RUNNING, Placement
from acquisition.wire import keys, position
from acquisition.wire.table import Entity
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.fixture_types import StartCluster
from tests.support.holding import hold_partitions
from tests.support.moving_vms import Host, Migration, Plant, Process, tag
from tests.support.waiting import PATIENCE, eventually

DOWN_AFTER = 10.0


class Bench:
    """A plant, a filter worker that is turned by hand, and a reader that reads all along."""

    def __init__(self, shards: Shards, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shards, self.plant = shards, plant
        monkeypatch.setattr(time, "time", lambda: plant.now)  # the clock of the filter
        self.cluster: Cluster = shards.connect()
        self.said: list[str] = []
        hold_partitions(self.cluster)
        self.worker = lone_worker(
            self.cluster, read_layout(self.cluster), FilterSettings(linger_seconds=0.0), report=self.said.append
        )
        self.reader = SnapshotReader(shards.connect(), 0.5, DOWN_AFTER, lambda: plant.now)
        self.owners = {host.name: self.cluster.owner(keys.applied(host.tag)) for host in plant.hosts}

    def deliver(self) -> None:
        """Send what the hosts hold and their network takes, and let the filter smooth it."""
        plant = self.plant
        sent = {
            host.tag: host.deliver(self.cluster, plant.now)
            for host in plant.alive
            if plant.tick >= host.away_until and host.held
        }
        eventually(
            lambda: not any(self.cursor(hash_tag) < place(entry) for hash_tag, entry in sent.items()),
            meanwhile=lambda: self.worker.turn(0.05),
            says=lambda: self.said[-5:],
        )

    def cursor(self, hash_tag: str) -> tuple[int, ...]:
        key = keys.commit(hash_tag)
        value = self.cluster.call(key, "GET", key)
        return (0, 0) if value is None else place(position.decode_commit(value).cursor)

    def reconnect(self, host: Host) -> None:
        """Until the shard of a host answers again."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.cursor(host.tag)
                return
            except (ShardError, TemporaryError):
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def fresh(self) -> Snapshot:
        """What a reader sees that has never read before."""
        with SnapshotReader(self.shards.connect(), 0.5, DOWN_AFTER, lambda: self.plant.now) as reader:
            return reader.coherent()

    def close(self) -> None:
        self.worker.close()
        self.reader.close()
        self.cluster.close()


def place(entry: bytes) -> tuple[int, ...]:
    return tuple(map(int, entry.split(b"-")))


@contextmanager
def benches(shards: Shards, plant: Plant) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        bench = Bench(shards, plant, patch)
        try:
            yield bench
        finally:
            bench.close()


# ---------------------------------------------------------------- what must be true of every snapshot


def check_blocks(plant: Plant, snapshot: Snapshot) -> None:
    """Every value belongs to the tick, or its host is late or down, with its age, and has none."""
    blocks = {block.host_id: block for block in snapshot.blocks}
    assert len(blocks) == len(snapshot.blocks)
    for host in plant.hosts:
        block = blocks.get(host.id)
        if block is None:
            assert snapshot.errors or not host.sent
        elif block.state == CURRENT:
            check_current(plant, host, block)
        else:
            check_absent(plant, host, block)


def check_current(plant: Plant, host: Host, block: Block) -> None:
    sent = host.sent[plant.tick]
    assert (block.tick, block.ids.tolist()) == (plant.tick, list(sent)), host.name
    last = block.plane("last").tolist()
    assert [row[2] for row in last] == [tag(plant.tick)] * len(sent), host.name
    np.testing.assert_array_equal([row[0] for row in last], list(sent.values()))  # NaN where it has no rate yet


def check_absent(plant: Plant, host: Host, block: Block) -> None:
    on_time = host.step == 0 and host.delivered == plant.now and block.position and block.position.tick == plant.tick
    assert not on_time, (host.name, block.reason)
    assert block.reason
    assert not block.has_values
    if block.unreachable:
        assert block.state == UNKNOWN
        return
    silent = plant.now - host.delivered
    expected = (DOWN, UNKNOWN) if silent > DOWN_AFTER else (LATE,)  # unknown where its neighbours are not heard either
    assert block.state in expected, (host.name, silent, block.reason)
    assert block.age_seconds >= silent - 1e-6


def check_places(plant: Plant, snapshot: Snapshot) -> None:
    """Every VM is on exactly one host: the one that the figures of its processes prove."""
    for placed, own in places_and_rows(snapshot):
        current = [(block, entity) for block, entity in own if block.state == CURRENT]
        check_evidence(plant, placed, current)
        if len(current) > 1:
            assert placed.state == MIGRATING
            assert {block.host for block, _ in current} <= {placed.host, *placed.other_hosts}


def places_and_rows(snapshot: Snapshot) -> Iterator[tuple[Placement, list[tuple[Block, Entity]]]]:
    """Each VM with its place, which is one of its rows, and all of its rows."""
    rows = [(block, entity) for block in snapshot.blocks for entity in block.entities if entity.kind == "vm"]
    placements = snapshot.placements
    assert set(placements.all) == {entity.stable for _, entity in rows}
    for uuid, placed in placements.all.items():
        own = [(block, entity) for block, entity in rows if entity.stable == uuid]
        real = [(block, entity) for block, entity in own if not placements.is_shadow(block.host_id, entity.id)]
        assert [(block.host, entity.id) for block, entity in real] == [(placed.host, placed.entity_id)], uuid
        assert (placed.host_state, placed.age_seconds) == (real[0][0].state, real[0][0].age_seconds)
        yield placed, own


def check_evidence(plant: Plant, placed: Placement, current: list[tuple[Block, Entity]]) -> None:
    hosts = {host.id: host for host in plant.hosts}
    figures = {e.id: hosts[b.host_id].sent[plant.tick].get(e.id, 0.0) for b, e in current}
    running = [entity for entity, figure in figures.items() if figure > 0.0]
    if running:
        assert placed.entity_id in running, (placed, plant.events[-5:])
    processes = {process.entity.id: process for process in plant.processes(placed.vm)}
    place_of = processes.get(placed.entity_id)
    if place_of is not None and not place_of.ran:  # nothing that is known to have run the guest may be passed over
        others = [processes.get(process.entity_id) for process in placed.evidence if process.certain]
        known = [other for other in others if other is not None and not other.host.step]  # not told a tick ahead
        assert not any(other.ran for other in known), (placed, plant.events[-5:])


def check_truth(plant: Plant, snapshot: Snapshot) -> None:
    """Where all that is reported is of now, the answer is what is true."""
    current = {block.host for block in snapshot.blocks if block.state == CURRENT}
    steady = {host.name for host in plant.hosts if not host.step}
    for uuid in plant.uuids:
        placed, processes = snapshot.placements.all.get(uuid), plant.processes(uuid)
        if placed is None or not {each.host.name for each in processes} <= current & steady:
            continue
        if not {process.host for process in placed.evidence} <= current & steady:
            continue
        migration = plant.migrations.get(uuid)
        if migration is None:
            (only,) = processes
            assert (placed.host, placed.entity_id) == (only.host.name, only.entity.id), plant.events[-5:]
            assert placed.state == (ARRIVING if only.incoming and not only.ran else RUNNING)
        elif migration.at < migration.switch and migration.source.ran:
            check_migrating(placed, migration, migration.source, plant)
        elif migration.at > migration.switch and migration.target.ran:
            check_migrating(placed, migration, migration.target, plant)


def check_migrating(placed: Placement, migration: Migration, where: Process, plant: Plant) -> None:
    assert (placed.host, placed.entity_id) == (where.host.name, where.entity.id), (placed, plant.events[-5:])
    assert placed.state == MIGRATING
    assert (placed.source, placed.destination) == (migration.source.host.name, migration.target.host.name)


def check_changes(before: Snapshot, after: Snapshot, plant: Plant) -> None:
    """A VM leaves a process that is still there for one that has run, while it stands still itself; or while
    both run (clocks that are a second apart make the change-over last longer), for an older one."""
    for uuid, was in before.placements.all.items():
        now = after.placements.all.get(uuid)
        if now is None or now.entity_id == was.entity_id:
            continue
        left = next((process for process in now.evidence if process.entity_id == was.entity_id), None)
        if left is not None and left.certain:
            taken = next(process for process in now.evidence if process.entity_id == now.entity_id)
            assert taken.guest.ever, (was, now, plant.events[-5:])
            assert not left.guest.now or (taken.guest.now and now.evidence.index(taken) < now.evidence.index(left))


def places(snapshot: Snapshot) -> dict[str, tuple[object, ...]]:
    return {
        uuid: (placed.host, placed.entity_id, placed.state, placed.host_state, placed.other_hosts)
        for uuid, placed in snapshot.placements.all.items()
    }


def check(bench: Bench, before: Snapshot | None) -> Snapshot:
    snapshot = bench.reader.coherent()
    check_blocks(bench.plant, snapshot)
    check_places(bench.plant, snapshot)
    check_truth(bench.plant, snapshot)
    assert list(places_and_rows(bench.reader.latest()))  # of several ticks, and one place as well
    if before is not None:
        check_changes(before, snapshot, bench.plant)
    if not snapshot.errors:
        late_comer = bench.fresh()
        if not late_comer.errors and all(block.names for block in late_comer.blocks):
            assert places(late_comer) == places(snapshot), "a reader without a past says the same"
    return snapshot


# ---------------------------------------------------------------- faults


def misfortune(bench: Bench) -> None:
    """Perhaps something happens in this second."""
    plant = bench.plant
    chance = plant.random
    for uuid in plant.uuids:
        settled = uuid not in plant.migrations and len(plant.processes(uuid)) == 1
        if settled and len(plant.alive) > 1 and chance.random() < 0.12:
            plant.migrate(uuid)
    host = chance.choice(plant.alive) if plant.alive else None
    drawn = chance.random()
    if host is None:
        return
    if drawn < 0.06:
        host.away_until = plant.tick + chance.choice([2, 3, 5, 14])
        plant.events.append(f"{plant.tick}: the network of {host.name} is away until {host.away_until}")
    elif drawn < 0.08 and len(plant.alive) > 2:
        plant.crash(host, chance.choice([3, 13]))
    elif drawn < 0.12:
        host.step = chance.choice([0.0, 1.3, 5.0, 3600.0, -1.3, -5.0, -3600.0])
        plant.events.append(f"{plant.tick}: the clock of {host.name} is {host.step} s off")
    elif drawn < 0.17:
        for each in plant.hosts:
            each.step = 0.0
    elif drawn < 0.18:
        wipe(bench, chance.choice(sorted(bench.shards.addresses)))


def wipe(bench: Bench, address: Address) -> None:
    """A shard comes back empty: its probes send again what they hold."""
    connection = Connection(address)
    connection.call("FLUSHALL")
    connection.close()
    write_layout(bench.cluster, keys.DEFAULT_PARTITIONS)  # as who starts shards does
    hold_partitions(bench.cluster)
    bench.plant.events.append(f"{bench.plant.tick}: shard {address} has lost everything")
    lose(bench, address)


def lose(bench: Bench, address: Address) -> None:
    for host in bench.plant.hosts:
        if bench.owners[host.name] == address:
            host.send_again()
            host.sent.clear()


@pytest.mark.parametrize("seed", range(8))
def test_vms_that_move_at_random_under_faults(shards: Shards, cluster: Cluster, seed: int) -> None:
    plant = Plant(seed, hosts=5, vms=8)
    seen = dict.fromkeys((RUNNING, MIGRATING), 0)
    with benches(shards, plant) as bench:
        assert set(bench.owners.values()) == set(shards.addresses)
        before = None
        for _ in range(120):
            misfortune(bench)
            plant.restart_lost()
            plant.step()
            bench.deliver()
            before = check(bench, before)
            for placed in before.placements.all.values():
                seen[placed.state] = seen.get(placed.state, 0) + 1
    assert seen[MIGRATING] > 50, seen
    assert seen[RUNNING] > 200, seen


def test_a_shard_that_dies_and_comes_back_while_vms_move(start_cluster: StartCluster) -> None:
    shards = start_cluster(2, directives={"cluster-node-timeout": "15000"})  # else the other is down as well
    plant = Plant(3, hosts=6, vms=10)
    with benches(shards, plant) as bench:
        before = live(bench, 12, None)
        dead = shards.shards[0]
        os.kill(dead.pid, signal.SIGKILL)
        behind = [host for host in plant.hosts if bench.owners[host.name] == dead.address]
        assert 0 < len(behind) < len(plant.hosts)
        for host in behind:
            host.away_until = plant.tick + 15
        before = live(bench, 14, before)
        assert {block.state for block in before.blocks if block.host in {host.name for host in behind}} == {UNKNOWN}
        assert any(str(dead.address) in error for error in before.errors)
        assert shards.revive()
        bench.reconnect(behind[0])
        hold_partitions(bench.cluster)
        lose(bench, dead.address)
        after = live(bench, 12, before)
        assert after.errors == ()
        assert {block.state for block in after.blocks} == {CURRENT}


def live(bench: Bench, seconds: int, before: Snapshot | None) -> Snapshot:
    """VMs migrate, and every second is checked."""
    for _ in range(seconds):
        for uuid in bench.plant.uuids:
            if uuid not in bench.plant.migrations and bench.plant.random.random() < 0.1:
                bench.plant.migrate(uuid)
        bench.plant.step()
        bench.deliver()
        before = check(bench, before)
    assert before is not None
    return before
