"""Not faults, but in the order of things: partitions move, shards come and go, under load."""

from __future__ import annotations

import time
from collections.abc import Iterator

from acquisition.shards import growth
from acquisition.shards.migrate import Mover, owners
from acquisition.shards.nodes import Members
from acquisition.shards.reshard import Move, holders, stripe
from acquisition.wire.keys import DEFAULT_PARTITIONS
from experiments.chaos.faults.registry import HEAL_SECONDS, healthy, register
from experiments.chaos.plant import Plant
from experiments.chaos.schedule import Fault

_DEAD_SECONDS = 1.0


@register
def reshard(plant: Plant, fault: Fault) -> Iterator[None]:
    """Partitions move from the master that has most to the one that has least, under load."""
    healthy(plant, fault.target)
    with Members(plant.cluster.addresses) as members:
        mover = Mover(members, _silent)
        nodes = mover.look()
        owner = owners(nodes)
        held: dict[str, list[int]] = {node.id: [] for node in nodes if node.slots}
        for partition, holder in enumerate(holders(owner, DEFAULT_PARTITIONS)):
            held[holder].append(partition)
        ordered = sorted(held, key=lambda name: len(held[name]))
        source, target = ordered[-1], ordered[0]
        for partition in held[source][: int(fault.size)]:
            slots = tuple(slot for slot in stripe(partition, DEFAULT_PARTITIONS) if owner[slot] == source)
            mover.carry_out(Move(partition, source, target, slots))
            time.sleep(fault.seconds / fault.size)
        yield
    plant.cluster.wait_healthy(HEAL_SECONDS)


@register
def grow(plant: Plant, fault: Fault) -> Iterator[None]:
    """One more shard, without a replica, takes its part of the partitions under load, and gives it back.
    With ``size`` 1 it dies between: it comes back with nothing in it."""
    healthy(plant, fault.target)
    members = plant.cluster.addresses
    shard = plant.new_shard()
    shard.start()
    growth.take_in(shard.address, members, DEFAULT_PARTITIONS, _silent)
    if fault.size:
        shard.kill()
        time.sleep(_DEAD_SECONDS)
        shard.start()
    yield
    plant.cluster.wait_healthy(HEAL_SECONDS)
    growth.empty(shard.address, members, DEFAULT_PARTITIONS, _silent)
    growth.forget(shard.address, members)
    shard.kill()


def _silent(_text: str) -> None:
    """Nobody reads along."""
