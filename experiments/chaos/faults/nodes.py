"""Faults of masters and replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from acquisition.link.resp import Address
from experiments.chaos.faults.targets import HEAL_SECONDS, broken, frozen, healthy
from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault, kind
from experiments.testbed import Node


@kind("cluster", "shard", 6.0, 10.0, 4.0)
def kill_master(installation: Installation, fault: Fault) -> Iterator[None]:
    """kill -9 of a master; it comes back, empty, after its replica has taken over."""
    master, _ = healthy(installation, fault.target)
    installation.cluster.kill(master)
    yield
    installation.cluster.revive(master, HEAL_SECONDS)


@kind("cluster", "shard", 3.0, 8.0, 4.0)
def kill_replica(installation: Installation, fault: Fault) -> Iterator[None]:
    """kill -9 of a replica; it comes back and copies its master's memory."""
    _, replica = healthy(installation, fault.target)
    installation.cluster.kill(replica)
    yield
    installation.cluster.revive(replica, HEAL_SECONDS)


@kind("cluster", "shard", 2.0, 6.0, 6.0)
def lose_shard(installation: Installation, fault: Fault) -> Iterator[None]:
    """Replica and master die, one after the other: the shard comes back with nothing in it."""
    master, replica = healthy(installation, fault.target)
    installation.cluster.kill(replica)
    installation.cluster.kill(master)
    yield
    installation.cluster.revive(master, HEAL_SECONDS)
    installation.cluster.revive(replica, HEAL_SECONDS)


@kind("cluster", "shard", 6.0, 12.0, 4.0)
def cut_master(installation: Installation, fault: Fault) -> Iterator[None]:
    """A master's link is cut; when it is healed the old master finds that it is replaced."""
    master, _ = healthy(installation, fault.target)
    with broken(master.host.link.cut()):
        yield
    installation.cluster.wait_healthy(HEAL_SECONDS)


@kind("cluster", "shard", 3.0, 8.0, 4.0)
def cut_replica(installation: Installation, fault: Fault) -> Iterator[None]:
    """A replica's link is cut."""
    _, replica = healthy(installation, fault.target)
    with broken(replica.host.link.cut()):
        yield
    installation.cluster.wait_healthy(HEAL_SECONDS)


@kind("cluster", "cluster", 5.0, 9.0, 4.0)
def isolate_master(installation: Installation, fault: Fault) -> Iterator[None]:
    """A master loses sight of all other nodes, but not of probes and workers: what it acknowledges until it
    notices is gone as soon as it finds that it is replaced."""
    master, replica = healthy(installation, fault.target)
    with contextlib.ExitStack() as blocks:
        blocks.enter_context(replica.host.link.block(master.address))
        for other in installation.cluster.nodes:
            if other is not master:
                blocks.enter_context(other.host.link.block(_bus(master)))
                blocks.enter_context(master.host.link.block(_bus(other)))
        yield
    installation.cluster.wait_healthy(HEAL_SECONDS)


@kind("cluster", "shard", 1.0, 9.0, 4.0)
def freeze_master(installation: Installation, fault: Fault) -> Iterator[None]:
    """SIGSTOP of a master: a pause when it is short, a takeover and a master that wakes up too late when not."""
    master, _ = healthy(installation, fault.target)
    with frozen(master):
        yield
    installation.cluster.wait_healthy(HEAL_SECONDS)


def _bus(node: Node) -> Address:
    """Port between a node and the other nodes (Redis Cluster specification: ten thousand above its port)."""
    return Address(node.address.host, node.address.port + 10000)
