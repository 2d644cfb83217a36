"""What each client does in each state of a real cluster: it goes on, or waits and says why, and nothing is lost.

One cluster of two masters is put into one state after another while probes' writers and a filter worker
run on it; ``HOST`` is the host whose partition is hit, ``OTHER`` one on the other shard.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from acquisition.errors import ShardError, ShardpulseError, TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address, Connection
from acquisition.shards.servers.launch import Shards, start_shards
from acquisition.shards.topology.migrate import Mover
from acquisition.shards.topology.nodes import Members, owners
from acquisition.snapshot.reader import SnapshotReader
from acquisition.wire import keys
from tests.support import slow_loading
from tests.support.growth_load import SET, Load, loaded
from tests.support.waiting import PATIENCE

HOST, OTHER = 5, 60
FRESH = 2.0


class World(NamedTuple):
    """The cluster, what runs on it, and the way to its members; ``slot`` and ``tag`` are those of HOST."""

    shards: Shards
    load: Load
    members: Members
    tag: str
    slot: int

    def ends(self) -> tuple[str, str]:
        """The ids of the slot's owner and of the other master."""
        nodes = self.members.look()
        owner = owners(nodes)[self.slot]
        (other,) = [node.id for node in nodes if node.id != owner]
        return owner, other

    def hit(self) -> int:
        """The index of the shard that owns the slot."""
        owner, _ = self.ends()
        return self.shards.addresses.index(self.members.place(owner))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with (
        start_shards(2, tmp_path_factory.mktemp("states"), maxmemory_bytes=128 << 20) as shards,
        loaded(shards.directory, hosts=64, interval=0.2) as load,
        Members(shards.addresses) as members,
    ):
        tag = load.layout.tag_of(HOST)
        yield World(shards, load, members, tag, keys.slot_of(keys.raw(tag)))
        load.assert_whole()


def setslot(world: World, node: str, *what: str) -> None:
    world.members.call(node, "CLUSTER", "SETSLOT", world.slot, *what)


@contextmanager
def moved(world: World) -> Iterator[None]:
    """MOVED: another shard owns the slot from one moment to the next."""
    mover = Mover(world.members, lambda _: None)
    mover.look()
    mover._hand_over(*world.ends(), [world.slot])
    yield


@contextmanager
def handed_over(world: World, part: float) -> Iterator[None]:
    """The slot stays half way: a part of its keys has gone, and nobody is told yet."""
    source, target = world.ends()
    place = world.members.place(target)
    setslot(world, target, "IMPORTING", source)
    setslot(world, source, "MIGRATING", target)
    found = sorted(world.members.keys(source, world.slot))
    gone = found[: int(part * len(found))]
    world.members.call(source, "MIGRATE", place.host, place.port, "", 0, 5000, "KEYS", *gone)
    yield
    left = world.members.keys(source, world.slot)
    if left:
        world.members.call(source, "MIGRATE", place.host, place.port, "", 0, 5000, "REPLACE", "KEYS", *left)
    setslot(world, target, "NODE", target)
    setslot(world, source, "NODE", target)


@contextmanager
def unowned(world: World) -> Iterator[None]:
    """CLUSTERDOWN: nobody owns the slot."""
    owner, other = world.ends()
    for node in (owner, other):
        world.members.call(node, "CLUSTER", "DELSLOTS", world.slot)
    yield
    world.members.call(owner, "CLUSTER", "ADDSLOTS", world.slot)
    setslot(world, other, "NODE", owner)


@contextmanager
def full(world: World) -> Iterator[None]:
    """OOM: the shard has reached its limit."""
    owner, _ = world.ends()
    world.members.call(owner, "CONFIG", "SET", "maxmemory", 1)
    yield
    world.members.call(owner, "CONFIG", "SET", "maxmemory", 128 << 20)


@contextmanager
def hanging(world: World) -> Iterator[None]:
    """The shard does not answer, and does not hang up."""
    pid = world.shards.pids[world.hit()]
    os.kill(pid, signal.SIGSTOP)
    yield
    os.kill(pid, signal.SIGCONT)


@contextmanager
def gone(world: World) -> Iterator[None]:
    """The shard was killed, and comes back empty."""
    shard = world.shards.shards[world.hit()]
    os.kill(shard.pid, signal.SIGKILL)
    while shard.alive:
        time.sleep(0.01)
    yield
    world.shards.revive()


class State(NamedTuple):
    """``problem``: words that the writer says while it waits, "" when it goes on. ``raises``: what a client gets
    from ``Cluster.call`` for two keys of the partition, None when it gets values. ``applied_within`` of the end."""

    enter: Callable[[World], AbstractContextManager[None]]
    problem: str = ""
    raises: type[ShardpulseError] | None = None
    says: str = ""
    write: bool = False  #: only writes are refused
    applied_within: float = FRESH


STATES = {
    "MOVED": State(moved),
    "ASK": State(lambda world: handed_over(world, 1.0), "ASK"),
    "TRYAGAIN": State(lambda world: handed_over(world, 0.4), "", TemporaryError, "TRYAGAIN|ASK"),
    "CLUSTERDOWN": State(unowned, "CLUSTERDOWN|no shard owns slot", TemporaryError, "CLUSTERDOWN|no shard owns"),
    "OOM": State(full, "OOM", TemporaryError, "OOM", write=True),
    "hanging": State(hanging, "timed out", ShardError, "timed out"),
    "gone": State(gone, "refused|is unreachable", ShardError, "is unreachable|closed|reset", applied_within=8.0),
}


def two_keys(world: World) -> tuple[str, ...]:
    """A command on two keys of the partition, of which one moves early and one late."""
    found = sorted([keys.commit(world.tag), keys.status(world.tag, HOST)])
    return ("EXISTS", *found)


def ask(world: World, state: State, cluster: Cluster) -> None:
    key = keys.status(world.tag, HOST + 64_000)
    command = ("SET", key, "x") if state.write else two_keys(world)
    if state.raises is None:
        assert cluster.call(command[1], *command) is not None
        return
    with pytest.raises(state.raises, match=state.says):
        cluster.call(command[1], *command)


def wait_applied(load: Load, host: int, after: float, seconds: float) -> None:
    """Until a frame is applied that was offered after a moment (monotonic)."""
    newest = load.writers[host]._outbox.windows[SET].last

    def done() -> bool:
        found = load.position(host)
        return found is not None and found.sequence > newest

    load.wait(done, seconds)


@pytest.mark.few
@pytest.mark.parametrize("name", STATES)
def test_state(world: World, name: str) -> None:
    state, load = STATES[name], world.load
    cluster = world.shards.connect(timeout=0.5)
    cluster.call(keys.layouts()[0], "GET", keys.layouts()[0])  # it knows the map of before
    other = next(host for host in load.hosts if not same_shard(world, host))
    with SnapshotReader(world.shards.connect(timeout=0.5)) as reader:
        reader.latest()
        with state.enter(world):
            began = time.monotonic()
            ask(world, state, cluster)
            reader.cluster.refresh()
            snapshot = reader.latest()  # never fails while one shard can be read
            assert len(snapshot.blocks) == len(load.hosts)
            if state.problem:
                writer = load.writers[HOST]
                words = state.problem.split("|")
                load.wait(lambda: any(word in writer.problem for word in words), PATIENCE)
            if name not in ("hanging", "gone"):
                wait_applied(load, other, began, FRESH)
            assert load.filtering
        ended = time.monotonic()
        for host in (HOST, other):
            wait_applied(load, host, ended, state.applied_within)
        load.wait(lambda: not any(writer.problem for writer in load.writers.values()), PATIENCE)
        assert cluster.call(two_keys(world)[1], *two_keys(world)) == 2
        load.wait(lambda: all(block.has_values for block in reader.latest().blocks), state.applied_within)
    cluster.close()


def same_shard(world: World, host: int) -> bool:
    owner = owners(world.members.look())
    return owner[keys.slot_of(keys.raw(world.load.layout.tag_of(host)))] == owner[world.slot]


@pytest.mark.slow
def test_loading(tmp_path: Path) -> None:
    """LOADING: a shard reads a large file when it starts; it comes back as old as that file."""
    with (
        start_shards(2, tmp_path / "s", maxmemory_bytes=128 << 20, directives=slow_loading.directives(4000)) as shards,
        loaded(shards.directory, hosts=64, interval=0.2) as load,
    ):
        cluster = shards.connect(timeout=0.5)
        saving = cluster.connect(shards.addresses[0])
        slow_loading.save_large(saving, keys.tags(64)[0])
        saving.close()
        time.sleep(0.6)  # what is applied now is not in the file
        victim = shards.shards[0]
        os.kill(victim.pid, signal.SIGKILL)
        while victim.alive:
            time.sleep(0.01)
        shards.start(victim.address, victim.core, Path(victim.directory))
        for said in said_until(cluster, keys.status(keys.tags(64)[0], 64), victim.address, "LOADING"):
            assert any(word in said for word in ("LOADING", "CLUSTERDOWN", "is unreachable", "closed", "reset"))
        cluster.close()
        shards.revive()
        load.wait(lambda: not any(writer.problem for writer in load.writers.values()), 15.0)
        load.assert_whole()


def said_until(cluster: Cluster, key: str, address: Address, word: str) -> set[str]:
    """What calls for a key, and ones without, answer until one says ``word``: only errors that may pass.

    A master that starts says CLUSTERDOWN of its slots first, LOADING to everything else.
    """
    said: set[str] = set()
    deadline = time.monotonic() + PATIENCE
    while word not in " ".join(said):
        assert time.monotonic() < deadline, said
        try:
            cluster.call(key, "GET", key)
        except (TemporaryError, ShardError) as error:
            said.add(str(error))
        try:
            with contextlib.closing(cluster.connect(address)) as connection:
                connection.call("DBSIZE")
        except (TemporaryError, ShardError) as error:
            said.add(str(error))
    return said


def test_masterdown(tmp_path: Path) -> None:
    """MASTERDOWN: a replica that may not answer with old data while it has lost its master."""
    directives = {"replica-serve-stale-data": "no"}
    with start_shards(1, tmp_path / "s", maxmemory_bytes=64 << 20, directives=directives, replicas=1) as shards:
        connection = Connection(shards.addresses[1])
        connection.call("READONLY")
        os.kill(shards.pids[0], signal.SIGSTOP)
        connection.call("CLIENT", "KILL", "TYPE", "master")
        with pytest.raises(TemporaryError, match="MASTERDOWN"):
            connection.call("GET", keys.layouts()[0])
        connection.close()
        os.kill(shards.pids[0], signal.SIGCONT)
