"""Faults of masters and replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from acquisition.link.resp import Address
from experiments.chaos.faults.registry import HEAL_SECONDS, broken, healthy, register
from experiments.chaos.plant import Plant
from experiments.chaos.schedule import Fault
from experiments.testbed import Node


@register
def kill_master(plant: Plant, fault: Fault) -> Iterator[None]:
    """kill -9 of a master; it comes back, empty, after its replica has taken over."""
    master, _ = healthy(plant, fault.target)
    plant.cluster.kill(master)
    yield
    plant.cluster.revive(master, HEAL_SECONDS)


@register
def kill_replica(plant: Plant, fault: Fault) -> Iterator[None]:
    """kill -9 of a replica; it comes back and copies its master's memory."""
    _, replica = healthy(plant, fault.target)
    plant.cluster.kill(replica)
    yield
    plant.cluster.revive(replica, HEAL_SECONDS)


@register
def lose_shard(plant: Plant, fault: Fault) -> Iterator[None]:
    """Replica and master die, one after the other: the shard comes back with nothing in it."""
    master, replica = healthy(plant, fault.target)
    plant.cluster.kill(replica)
    plant.cluster.kill(master)
    yield
    plant.cluster.revive(master, HEAL_SECONDS)
    plant.cluster.revive(replica, HEAL_SECONDS)


@register
def cut_master(plant: Plant, fault: Fault) -> Iterator[None]:
    """A master's link is cut; when it is healed the old master finds that it is replaced."""
    master, _ = healthy(plant, fault.target)
    with broken(master.host.link.cut()):
        yield
    plant.cluster.wait_healthy(HEAL_SECONDS)


@register
def cut_replica(plant: Plant, fault: Fault) -> Iterator[None]:
    """A replica's link is cut."""
    _, replica = healthy(plant, fault.target)
    with broken(replica.host.link.cut()):
        yield
    plant.cluster.wait_healthy(HEAL_SECONDS)


@register
def isolate_master(plant: Plant, fault: Fault) -> Iterator[None]:
    """A master loses sight of all other nodes, but not of probes and workers: what it acknowledges until it
    notices is gone as soon as it finds that it is replaced."""
    master, replica = healthy(plant, fault.target)
    with contextlib.ExitStack() as blocks:
        blocks.enter_context(replica.host.link.block(master.address))
        for other in plant.cluster.nodes:
            if other is not master:
                blocks.enter_context(other.host.link.block(_bus(master)))
                blocks.enter_context(master.host.link.block(_bus(other)))
        yield
    plant.cluster.wait_healthy(HEAL_SECONDS)


@register
def freeze_master(plant: Plant, fault: Fault) -> Iterator[None]:
    """SIGSTOP of a master: a pause when it is short, a takeover and a master that wakes up too late when not."""
    master, _ = healthy(plant, fault.target)
    master.freeze()
    try:
        yield
    finally:
        master.thaw()
    plant.cluster.wait_healthy(HEAL_SECONDS)


def _bus(node: Node) -> Address:
    """Where a node talks with the other nodes (Redis Cluster specification: ten thousand above its port)."""
    return Address(node.address.host, node.address.port + 10000)
