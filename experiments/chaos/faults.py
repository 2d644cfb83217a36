"""What each kind of fault does: a registry of context managers that make a fault and heal it.

A fault is asked for by number (shard 1, worker 0) and finds out by itself who is master at that moment.
Everything blocks: each lane of the schedule has a thread of its own. A healing returns when the
target is well again, as far as that can be asked. ``Skipped`` when the fault cannot be made now
without leaving what the design promises to survive.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from acquisition.errors import ShardpulseError, TemporaryError
from acquisition.link.resp import Address
from acquisition.shards import growth
from acquisition.shards.migrate import Mover, owners
from acquisition.shards.nodes import Members
from acquisition.shards.reshard import Move, holders, stripe
from acquisition.wire import keys
from acquisition.wire.keys import DEFAULT_PARTITIONS
from experiments.chaos.plant import Plant
from experiments.chaos.schedule import Fault
from experiments.testbed import Fault as LinkFault
from experiments.testbed import Node

_HEALTHY_SECONDS = 10.0
_HEAL_SECONDS = 45.0
_DEAD_SECONDS = 1.0
_JUNK_BYTES = (1 << 20, 1 << 15, 1 << 10)  #: smaller and smaller values, until not even these fit
_MOST_JUNK = 2000

Make = Callable[[Plant, Fault], AbstractContextManager[None]]


class Skipped(ShardpulseError):
    """The fault was not made, and why."""


REGISTRY: dict[str, Make] = {}


def _register(make: Callable[[Plant, Fault], Iterator[None]]) -> Make:
    REGISTRY[make.__name__] = contextlib.contextmanager(make)
    return REGISTRY[make.__name__]


# -------------------------------------------------------------------- masters and replicas


@_register
def kill_master(plant: Plant, fault: Fault) -> Iterator[None]:
    """kill -9 of a master; it comes back, empty, after its replica has taken over."""
    master, _ = _healthy(plant, fault.target)
    plant.cluster.kill(master)
    yield
    plant.cluster.revive(master, _HEAL_SECONDS)


@_register
def kill_replica(plant: Plant, fault: Fault) -> Iterator[None]:
    """kill -9 of a replica; it comes back and copies its master's memory."""
    _, replica = _healthy(plant, fault.target)
    plant.cluster.kill(replica)
    yield
    plant.cluster.revive(replica, _HEAL_SECONDS)


@_register
def lose_shard(plant: Plant, fault: Fault) -> Iterator[None]:
    """Replica and master die, one after the other: the shard comes back with nothing in it."""
    master, replica = _healthy(plant, fault.target)
    plant.cluster.kill(replica)
    plant.cluster.kill(master)
    yield
    plant.cluster.revive(master, _HEAL_SECONDS)
    plant.cluster.revive(replica, _HEAL_SECONDS)


@_register
def cut_master(plant: Plant, fault: Fault) -> Iterator[None]:
    """A master's link is cut; when it is healed the old master finds that it is replaced."""
    master, _ = _healthy(plant, fault.target)
    with _broken(master.host.link.cut()):
        yield
    plant.cluster.wait_healthy(_HEAL_SECONDS)


@_register
def cut_replica(plant: Plant, fault: Fault) -> Iterator[None]:
    """A replica's link is cut."""
    _, replica = _healthy(plant, fault.target)
    with _broken(replica.host.link.cut()):
        yield
    plant.cluster.wait_healthy(_HEAL_SECONDS)


@_register
def isolate_master(plant: Plant, fault: Fault) -> Iterator[None]:
    """A master loses sight of all other nodes, but not of probes and workers: what it acknowledges until it
    notices is gone as soon as it finds that it is replaced."""
    master, replica = _healthy(plant, fault.target)
    with contextlib.ExitStack() as blocks:
        blocks.enter_context(replica.host.link.block(master.address))
        for other in plant.cluster.nodes:
            if other is not master:
                blocks.enter_context(other.host.link.block(_bus(master)))
                blocks.enter_context(master.host.link.block(_bus(other)))
        yield
    plant.cluster.wait_healthy(_HEAL_SECONDS)


@_register
def freeze_master(plant: Plant, fault: Fault) -> Iterator[None]:
    """SIGSTOP of a master: a pause when it is short, a takeover and a master that wakes up too late when not."""
    master, _ = _healthy(plant, fault.target)
    master.freeze()
    try:
        yield
    finally:
        master.thaw()
    plant.cluster.wait_healthy(_HEAL_SECONDS)


# -------------------------------------------------------------------- links


@_register
def delay_shard(plant: Plant, fault: Fault) -> Iterator[None]:
    """Packets to and from a master are late."""
    with _broken(_master(plant, fault).host.link.delay(fault.size, fault.size / 2)):
        yield


@_register
def loss_shard(plant: Plant, fault: Fault) -> Iterator[None]:
    """Packets to and from a master are lost now and then."""
    with _broken(_master(plant, fault).host.link.loss(fault.size)):
        yield


@_register
def rate_shard(plant: Plant, fault: Fault) -> Iterator[None]:
    """A master's link is slow."""
    with _broken(_master(plant, fault).host.link.rate(fault.size)):
        yield


@_register
def delay_worker(plant: Plant, fault: Fault) -> Iterator[None]:
    """Packets to and from a worker are late."""
    with _broken(plant.workers[fault.target].host.link.delay(fault.size, fault.size / 2)):
        yield


@_register
def loss_worker(plant: Plant, fault: Fault) -> Iterator[None]:
    """Packets to and from a worker are lost now and then."""
    with _broken(plant.workers[fault.target].host.link.loss(fault.size)):
        yield


@_register
def cut_worker(plant: Plant, fault: Fault) -> Iterator[None]:
    """A worker's link is cut: it believes that it owns its partitions, and another takes over."""
    with _broken(plant.workers[fault.target].host.link.cut()):
        yield


@_register
def delay_generator(plant: Plant, fault: Fault) -> Iterator[None]:
    """Packets to and from a share of the probes are late."""
    with _broken(plant.generators[fault.target].host.link.delay(fault.size, fault.size / 2)):
        yield


@_register
def loss_generator(plant: Plant, fault: Fault) -> Iterator[None]:
    """Packets to and from a share of the probes are lost now and then."""
    with _broken(plant.generators[fault.target].host.link.loss(fault.size)):
        yield


@_register
def cut_generator(plant: Plant, fault: Fault) -> Iterator[None]:
    """The link of a share of the probes is cut: they go on sampling."""
    with _broken(plant.generators[fault.target].host.link.cut()):
        yield


# -------------------------------------------------------------------- workers and generators


@_register
def kill_worker(plant: Plant, fault: Fault) -> Iterator[None]:
    """kill -9 of a filter worker."""
    worker = plant.workers[fault.target]
    worker.kill()
    yield
    worker.start()


@_register
def freeze_worker(plant: Plant, fault: Fault) -> Iterator[None]:
    """SIGSTOP of a filter worker: it wakes up and still believes that it owns its partitions."""
    worker = plant.workers[fault.target]
    worker.freeze()
    try:
        yield
    finally:
        worker.thaw()


@_register
def kill_generator(plant: Plant, fault: Fault) -> Iterator[None]:
    """kill -9 of a share of the probes; they go on from their rings."""
    generator = plant.generators[fault.target]
    generator.kill()
    yield
    generator.start()


@_register
def freeze_generator(plant: Plant, fault: Fault) -> Iterator[None]:
    """SIGSTOP of a share of the probes: they miss ticks, and their connections time out."""
    generator = plant.generators[fault.target]
    generator.freeze()
    try:
        yield
    finally:
        generator.thaw()


@_register
def step_clock(plant: Plant, fault: Fault) -> Iterator[None]:
    """The wall clock of a share of the hosts is stepped, and stays so."""
    plant.generators[fault.target].step_clock(fault.size)
    yield


# -------------------------------------------------------------------- memory


@_register
def fill_memory(plant: Plant, fault: Fault) -> Iterator[None]:
    """A foreign client writes until the master has no room left; healed, its keys are deleted."""
    master = _master(plant, fault)
    cluster = plant.connect()
    try:
        tag = next(tag for tag in keys.tags(DEFAULT_PARTITIONS) if cluster.owner(keys.raw(tag)) == master.address)
        junk = [f"junk:{{{tag}}}:{number}" for number in range(_MOST_JUNK)]
        free = iter(junk)
        for size in _JUNK_BYTES:
            while not _failed(cluster.gather([((key := next(free)), ("SET", key, bytes(size)))])):
                pass
        yield
        _until(lambda: not _failed(cluster.gather([(key, ("UNLINK", key)) for key in junk])), "junk stays")
    finally:
        cluster.close()


@_register
def limit_memory(plant: Plant, fault: Fault) -> Iterator[None]:
    """A master's maxmemory is set to less than it uses: it refuses every write, the filter's as well."""
    master = _master(plant, fault)
    used = next(line for line in master.call("INFO", "memory").decode().split() if line.startswith("used_memory:"))
    master.call("CONFIG", "SET", "maxmemory", int(int(used.partition(":")[2]) * 0.9))
    try:
        yield
    finally:
        _until(lambda: _relieve(plant, master), f"{master} does not take its memory limit back")


# -------------------------------------------------------------------- growth


@_register
def reshard(plant: Plant, fault: Fault) -> Iterator[None]:
    """Partitions move from the master that has most to the one that has least, under load."""
    _healthy(plant, fault.target)
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
    plant.cluster.wait_healthy(_HEAL_SECONDS)


@_register
def grow(plant: Plant, fault: Fault) -> Iterator[None]:
    """One more shard, without a replica, takes its part of the partitions under load, and gives it back.
    With ``size`` 1 it dies between: it comes back with nothing in it."""
    _healthy(plant, fault.target)
    members = plant.cluster.addresses
    shard = plant.new_shard()
    shard.start()
    growth.take_in(shard.address, members, DEFAULT_PARTITIONS, _silent)
    if fault.size:
        shard.kill()
        time.sleep(_DEAD_SECONDS)
        shard.start()
    yield
    plant.cluster.wait_healthy(_HEAL_SECONDS)
    growth.empty(shard.address, members, DEFAULT_PARTITIONS, _silent)
    growth.forget(shard.address, members)
    shard.kill()


# -------------------------------------------------------------------- helpers


def _silent(_text: str) -> None:
    """Nobody reads along."""


def _healthy(plant: Plant, shard: int) -> tuple[Node, Node]:
    """Master and replica of a shard, in sync, in a cluster that is well. Raises Skipped."""
    try:
        plant.cluster.wait_healthy(_HEALTHY_SECONDS)
        return plant.roles(shard)
    except ShardpulseError as error:
        raise Skipped(f"the cluster is not well: {error}") from error


def _bus(node: Node) -> Address:
    """Where a node talks with the other nodes (Redis Cluster specification: ten thousand above its port)."""
    return Address(node.address.host, node.address.port + 10000)


def _master(plant: Plant, fault: Fault) -> Node:
    try:
        return plant.roles(fault.target)[0]
    except ShardpulseError as error:
        raise Skipped(str(error)) from error


@contextlib.contextmanager
def _broken(fault: LinkFault) -> Iterator[None]:
    try:
        yield
    finally:
        fault.heal()


def _relieve(plant: Plant, master: Node) -> bool:
    """Give a node its limit back; a dead one starts with it."""
    if master.alive:
        master.call("CONFIG", "SET", "maxmemory", plant.options.maxmemory_bytes)
    return True


def _failed(replies: list[object]) -> bool:
    return any(isinstance(reply, Exception) for reply in replies)


def _until(done: Callable[[], bool], problem: str) -> None:
    deadline = time.monotonic() + _HEAL_SECONDS
    while True:
        reason = problem
        try:
            if done():
                return
        except ShardpulseError as error:
            reason = f"{problem}: {error}"
        if time.monotonic() > deadline:
            raise TemporaryError(reason)
        time.sleep(0.1)
