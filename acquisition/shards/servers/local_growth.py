"""Adding or removing one local shard under load; resumes after interruption.

An operation is written into the state file before anything else is done (``launch.Intent``), so that the next
command finishes it instead of beginning something new.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from acquisition.errors import CannotCreateError, ShardpulseError, UnavailableError, UsageError
from acquisition.link.resp import Address
from acquisition.shards.servers import machine, readiness
from acquisition.shards.servers import process as shard_process
from acquisition.shards.servers.launch import Intent, Shards
from acquisition.shards.servers.process import Shard
from acquisition.shards.topology import growth, join
from acquisition.shards.topology.migrate import Moved, Report
from acquisition.shards.topology.nodes import Members, memory

ADD, REMOVE, BALANCE = "add", "remove", "balance"
_START_SECONDS = 15.0
_MOST_MEMORY = 0.9  #: of the machine's memory: limit for all shards together


class Growth(NamedTuple):
    """Result of growing or shrinking. ``longest_hold_seconds`` is the longest pause of a partition."""

    action: str
    shard: str  #: its address; "" if partitions were only evened out
    partitions: int
    keys: int
    bytes: int
    longest_hold_seconds: float
    seconds: float

    def text(self) -> str:
        """Readable form."""
        done = {ADD: f"added shard {self.shard}", REMOVE: f"removed shard {self.shard}", BALANCE: "balanced"}
        return (
            f"{done.get(self.action, f'emptied shard {self.shard}')}: {self.partitions} partitions, "
            f"{self.keys} keys, {self.bytes / 2**20:.1f} MiB moved in {self.seconds:.1f} s; longest pause of a "
            f"partition {1000 * self.longest_hold_seconds:.0f} ms"
        )


def add(
    shards: Shards,
    report: Report,
    core: int | None = None,
    port: int = 0,
    maxmemory: int = 0,
    directives: Mapping[str, str] | None = None,
) -> Growth:
    """Start one more shard (and as many replicas as the others have) and give it an even part of the partitions.

    ``core`` None takes the one with the fewest shards, ``port`` 0 the next free one, ``maxmemory`` 0 the limit of the
    others. Raises UnavailableError if a shard is down, UsageError if a removal was begun,
    CannotCreateError (core, port, memory of the machine), TemporaryError (room in the shard).
    """
    began = time.monotonic()
    if shards.intent is not None and shards.intent.action == REMOVE:
        raise UsageError(
            f"the removal of {shards.intent.shard} is unfinished; finish it with `shardpulse shards balance` first"
        )
    _check_alive(shards)
    limit = maxmemory or _limit(shards)
    if shards.intent is None:
        _check_memory(shards, limit)
        shards.begin(Intent(ADD, _free_names(shards, 1)[0]))
    else:
        report(f"finishing the interrupted addition of {shards.intent.shard}")
    assert shards.intent is not None
    name = shards.intent.shard
    try:
        shard = _start(shards, name, core, port, limit, directives or {})
        members = [one.address for one in shards.shards if one != shard]
        growth.check(shard.address, members, shards.layout.partitions, shards.credentials)
        join.introduce(shard.address, members, credentials=shards.credentials)
        _replicate(shards, shard, limit, directives or {})
        moved = growth.even_out(shards.addresses, shards.layout.partitions, report, shards.credentials)
    except ShardpulseError:
        _undo(shards, name)
        raise
    shards.begin(None)
    return result(ADD, shard.address, moved, began)


def remove(shards: Shards, name: str, report: Report) -> Growth:
    """Move everything off one shard, make the others forget it, and stop it and its replicas.

    ``name`` is its directory's name (shard-2), its address or its port. Raises UsageError for an unknown one, for
    the last master, or if another operation was begun; else as ``add``.
    """
    began = time.monotonic()
    shard = find(shards, name)
    own = Path(shard.directory).name
    if shards.intent is not None and shards.intent.shard != own:
        begun = "addition" if shards.intent.action == ADD else "removal"
        raise UsageError(
            f"the {begun} of {shards.intent.shard} is unfinished; finish it with `shardpulse shards balance` first"
        )
    if shards.intent is None or shards.intent.action == ADD:
        _check_alive(shards)
        shards.begin(Intent(REMOVE, own, _followers(shards, shard)))
    else:
        report(f"finishing the interrupted removal of {own}")
    assert shards.intent is not None
    gone = [shard, *(one for one in shards.shards if Path(one.directory).name in shards.intent.replicas)]
    members = [one.address for one in shards.shards if one not in gone]
    moved = Moved()
    try:
        if shard.alive:
            moved = growth.empty(shard.address, members, shards.layout.partitions, report, shards.credentials)
        for one in reversed(gone):  # replicas first: alone, they would look for another master
            growth.forget(one.address, members, shards.credentials)
    except ShardpulseError:
        if moved == Moved() and shard.alive:
            shards.begin(None)
        raise
    shards.drop(gone)
    shards.begin(None)
    return result(REMOVE, shard.address, moved, began)


def balance(shards: Shards, report: Report) -> Growth:
    """Finish what was begun, if anything, and give all masters the same number of partitions. Raises as ``add``."""
    intent, began = shards.intent, time.monotonic()
    if intent is not None and intent.action == ADD:
        return add(shards, report)
    if intent is not None and any(Path(one.directory).name == intent.shard for one in shards.shards):
        return remove(shards, intent.shard, report)
    shards.begin(None)
    _check_alive(shards)
    moved = growth.even_out(shards.addresses, shards.layout.partitions, report, shards.credentials)
    return result(BALANCE, None, moved, began)


def find(shards: Shards, name: str) -> Shard:
    """Shard with this directory name, address or port. Raises UsageError that lists the existing ones."""
    for shard in shards.shards:
        if name in (Path(shard.directory).name, str(shard.address), str(shard.port)):
            return shard
    known = ", ".join(f"{Path(shard.directory).name} ({shard.address})" for shard in shards.shards)
    raise UsageError(f"unknown shard {name}; shards are {known}")


# -------------------------------------------------------------------------------- checks


def _check_alive(shards: Shards) -> None:
    dead = [str(shard.address) for shard in shards.shards if not shard.alive]
    if dead:
        raise UnavailableError(f"shard {', '.join(dead)} is down; restart it with `shardpulse shards up` and try again")


def _check_memory(shards: Shards, limit: int) -> None:
    """Raise CannotCreateError if all shards together could need more than this machine has."""
    with Members(shards.addresses, shards.credentials) as members:
        limits = [memory(members, node.id)[1] for node in members.look()]
    most = int(_MOST_MEMORY * machine.memory_bytes())
    if sum(limits) + limit > most:
        raise CannotCreateError(
            f"not enough memory: {len(limits)} shards may use {sum(limits) / 2**20:.0f} MiB and another one "
            f"{limit / 2**20:.0f} MiB, but this machine allows {most / 2**20:.0f} MiB; set a lower --maxmemory "
            "BYTES"
        )


def _limit(shards: Shards) -> int:
    with Members(shards.addresses[:1], shards.credentials) as members:
        node = next(node for node in members.look() if node.address == shards.addresses[0])
        return memory(members, node.id)[1]


# -------------------------------------------------------------------------------- servers


def _free_names(shards: Shards, count: int) -> list[str]:
    used = {Path(shard.directory).name for shard in shards.shards}
    names = (f"shard-{number}" for number in range(len(used) + count))
    return [name for name in names if name not in used][:count]


def _start(shards: Shards, name: str, core: int | None, port: int, limit: int, directives: Mapping[str, str]) -> Shard:
    """Start an empty server of this name, or take the running one."""
    home = shards.directory / name
    for shard in shards.shards:
        if shard.directory == str(home):
            return shard
    _end_stray(home)
    host = shards.shards[0].host
    chosen = _quietest_core(shards) if core is None else core
    machine.check_cores([chosen])
    ports = machine.fixed_ports(port, 1, host) if port else _next_port(shards, host)
    address = Address(host, ports[0])
    shards.configure(address, chosen, home, limit, directives)
    shard = shards.start(address, chosen, home)
    deadline = time.monotonic() + _START_SECONDS
    readiness.wait_answering(shard, deadline, lambda: readiness.check_alive([shard]), shards.credentials)
    return shard


def _next_port(shards: Shards, host: str) -> list[int]:
    return machine.next_ports(1, host, max(shard.port for shard in shards.shards) + 1)


def _replicate(shards: Shards, master: Shard, limit: int, directives: Mapping[str, str]) -> None:
    """Give a new master as many replicas as the others have."""
    with Members(shards.addresses, shards.credentials) as members:
        nodes = members.look()
    following = Counter(node.master for node in nodes if node.master)
    own = next(node.id for node in nodes if node.address == master.address)
    others = [following[node.id] for node in nodes if not node.master and node.id != own]
    for name in _free_names(shards, max(0, min(others, default=0) - following[own])):
        replica = _start(shards, name, None, 0, limit, directives)
        join.replicate(replica.address, master.address, _START_SECONDS, shards.credentials)


def _quietest_core(shards: Shards) -> int:
    used = Counter(shard.core for shard in shards.shards)
    return min(machine.cores(), key=lambda core: used[core])


def _end_stray(home: Path) -> None:
    """End a server in ``home`` that an interrupted command started and could not record."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((home / "redis.pid").read_text())
        if Path(f"/proc/{pid}/cwd").resolve() == home.resolve():
            os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + shard_process.STOP_SECONDS
            while machine.start_time(pid) is not None and time.monotonic() < deadline:
                time.sleep(0.01)
    with contextlib.suppress(OSError):
        (home / "nodes.conf").unlink()  # it would come back as the former member


def _undo(shards: Shards, name: str) -> None:
    """Remove a new shard that holds nothing; one that holds something stays, for the next command."""
    new = [shard for shard in shards.shards if Path(shard.directory).name == name]
    members = [shard.address for shard in shards.shards if shard not in new]
    try:
        if new:
            with Members([*members, new[0].address], shards.credentials) as known:
                nodes = known.look()
            busy = any(node.migrating or node.importing for node in nodes)
            if busy or not any(node.address == new[0].address and not node.slots for node in nodes):
                return
            growth.forget(new[0].address, members, shards.credentials)
            shards.drop(new)
        shards.begin(None)
    except ShardpulseError:
        return  # the operation stays begun


def _followers(shards: Shards, master: Shard) -> tuple[str, ...]:
    """Directory names of a shard's replicas."""
    with Members(shards.addresses, shards.credentials) as members:
        nodes = members.look()
    ids = {node.id for node in nodes if node.address == master.address}
    places = {node.address for node in nodes if node.master in ids}
    return tuple(Path(shard.directory).name for shard in shards.shards if shard.address in places)


def result(action: str, address: Address | None, moved: Moved, began: float) -> Growth:
    """Summary of the growth since ``began`` (of the monotonic clock); ``address`` None if partitions were only evened
    out."""
    seconds = round(time.monotonic() - began, 3)
    longest = round(moved.longest, 4)
    return Growth(action, str(address or ""), moved.partitions, moved.keys, moved.bytes, longest, seconds)
