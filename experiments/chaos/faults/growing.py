"""Growth under load: partitions move, shards come and go (not faults)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from acquisition.shards.servers import grants
from acquisition.shards.topology import growth
from acquisition.shards.topology.migrate import Mover
from acquisition.shards.topology.nodes import Members, owners
from acquisition.shards.topology.reshard import Move, holders, stripe
from acquisition.wire.keys import DEFAULT_PARTITIONS
from experiments.chaos.faults.targets import HEAL_SECONDS, healthy
from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault, kind

_DEAD_SECONDS = 1.0


def _partitions(dice: random.Random) -> float:
    return float(dice.randint(2, 10))


@kind("cluster", "cluster", 4.0, 12.0, 2.0, size=_partitions)
def reshard(installation: Installation, fault: Fault) -> Iterator[None]:
    """Partitions move from the master that has most to the one that has least, under load."""
    healthy(installation, fault.target)
    operator = installation.cluster.access.credentials(grants.OPERATOR)
    with Members(installation.cluster.addresses, operator) as members:
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
    installation.cluster.wait_healthy(HEAL_SECONDS)


@kind("cluster", "cluster", 6.0, 12.0, 4.0, size=lambda dice: float(dice.randint(0, 1)))
def grow(installation: Installation, fault: Fault) -> Iterator[None]:
    """One more shard, without a replica, takes its part of the partitions under load, and gives it back.
    With ``size`` 1 it dies between: it comes back with nothing in it."""
    healthy(installation, fault.target)
    members = installation.cluster.addresses
    operator = installation.cluster.access.credentials(grants.OPERATOR)
    shard = installation.new_shard()
    shard.start()
    growth.take_in(shard.address, members, DEFAULT_PARTITIONS, _silent, operator)
    if fault.size:
        shard.kill()
        time.sleep(_DEAD_SECONDS)
        shard.start()
    yield
    installation.cluster.wait_healthy(HEAL_SECONDS)
    growth.empty(shard.address, members, DEFAULT_PARTITIONS, _silent, operator)
    growth.forget(shard.address, members, operator)
    shard.kill()


def _silent(_text: str) -> None:
    """A progress callback that prints nothing."""
