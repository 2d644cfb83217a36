"""Growing and shrinking of a running cluster, by addresses.

Each operation can be interrupted at any point and repeated: unfinished moves are completed first, and the plan is made
again from the present owners. ``acquisition.shards.servers.local_growth`` starts and stops the servers of this machine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from acquisition.errors import TemporaryError, UnavailableError, UsageError
from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.topology import join, reshard
from acquisition.shards.topology.migrate import Moved, Mover, Report
from acquisition.shards.topology.nodes import Members, Node, memory, owners
from acquisition.shards.topology.reshard import Move
from acquisition.wire.keys import SLOTS

_FULL = 0.9  #: of maxmemory: limit for a plan
_FORGET_SECONDS = 10.0
_NAMES_SECONDS = 10.0


def take_in(
    newcomer: Address,
    members: Sequence[Address],
    partitions: int,
    report: Report,
    credentials: Credentials | None = None,
    replicas: Sequence[Address] = (),
) -> Moved:
    """Make the empty server at ``newcomer`` a master of the cluster, with ``replicas``, and give it an even part of the
    partitions.

    Raises UnavailableError if a master is down, TemporaryError if there is no room, ShardError, UsageError.
    """
    check(newcomer, members, partitions, credentials)
    join.introduce(newcomer, members, credentials=credentials)
    for replica in replicas:
        join.replicate(replica, newcomer, credentials=credentials)
    everybody = [*members, newcomer, *replicas]
    wait_for_names(everybody, credentials)
    moved = even_out(everybody, partitions, report, credentials)
    join.wait_received(dict.fromkeys(replicas, newcomer), credentials=credentials)
    return moved


def wait_for_names(members: Sequence[Address], credentials: Credentials | None = None) -> None:
    """Wait until all are known by their announced names: a newcomer first learns addresses, which are in no
    certificate. A dead member is found by the next command."""
    deadline = time.monotonic() + _NAMES_SECONDS
    with Members(members, credentials) as known:
        while known.look() and known.silent and time.monotonic() < deadline:
            time.sleep(0.05)


def check(
    newcomer: Address, members: Sequence[Address], partitions: int, credentials: Credentials | None = None
) -> None:
    """Raise UnavailableError if a master is down, UsageError if there are too few partitions for one more."""
    with Members(members, credentials) as known:
        masters = {node.address for node in known.look() if not node.master} | {newcomer}
        _check_all_up(known)
    if len(masters) > partitions:
        raise UsageError(f"the cluster has only {partitions} partitions, too few for {len(masters)} more shards")


def even_out(
    members: Sequence[Address], partitions: int, report: Report, credentials: Credentials | None = None
) -> Moved:
    """Finish what was begun, then move partitions until all masters hold the same number, give or take one.

    Raises as ``take_in``.
    """
    with Members(members, credentials) as known:
        mover, _ = _ready(known, report, partitions)
        nodes = mover.look()
        masters = [node.id for node in nodes if not node.master]
        plan = reshard.even(owners(nodes), masters, partitions)
        _check_room(known, plan)
        return mover.run(plan)


def empty(
    leaving: Address,
    members: Sequence[Address],
    partitions: int,
    report: Report,
    credentials: Credentials | None = None,
) -> Moved:
    """Move everything on the master at ``leaving`` to the others. It stays a member: see ``forget``.

    Raises UsageError if it is the last master, else as ``take_in``.
    """
    with Members([leaving, *members], credentials) as known:
        mover, nodes = _ready(known, report, partitions)
        own = next(node for node in nodes if node.address == leaving)
        if own.master:
            return mover.moved  # a replica holds no slots
        masters = [node.id for node in nodes if not node.master]
        plan = reshard.emptied(owners(nodes), masters, own.id, partitions)
        _check_room(known, plan)
        # else shard and replicas follow another master with its last slot, and copy all of its data
        staying = [node.id for node in nodes if own.id in (node.id, node.master)]
        _let_follow_others(known, staying, "no")
        moved = mover.run(plan)
        _let_follow_others(known, staying, "yes")
        return moved


def _let_follow_others(known: Members, nodes: Sequence[str], choice: str) -> None:
    for node in nodes:
        if known.knows(node):
            known.pipeline(node, [("CONFIG", "SET", "cluster-allow-replica-migration", choice)])


def forget(leaving: Address, members: Sequence[Address], credentials: Credentials | None = None) -> None:
    """Make all ``members`` forget a member that owns nothing. Calling it again changes nothing.

    Raises UsageError if it owns slots, TemporaryError if a member still knows it.
    """
    with Members(members, credentials) as known:
        deadline = time.monotonic() + _FORGET_SECONDS
        while True:
            nodes = known.look()
            gone = _ids_of(leaving, known, nodes)
            others = [node.id for node in nodes if node.address != leaving]
            if not any(name in gone for other in others for name in known.known_to(other)):
                return
            owning = {node.id for node in nodes if node.slots} | {one.id for one in known.mentions if one.owns_slots}
            if not gone & owning:  # gossip may take a moment to reach the last of them
                for other in others:
                    known.pipeline(other, [("CLUSTER", "FORGET", name) for name in gone])
            elif time.monotonic() > deadline:
                raise UsageError(f"shard {leaving} still owns slots; drain it before removing it")
            if time.monotonic() > deadline:
                raise TemporaryError(f"shard {leaving} was not removed from all members; try again")
            time.sleep(0.05)


def _ids_of(address: Address, known: Members, nodes: Sequence[Node]) -> set[str]:
    """Ids under which an address is known; a restarted server may have had several."""
    return {node.id for node in nodes if node.address == address} | {
        mention.id for mention in known.mentions if mention.address == address
    }


def _ready(known: Members, report: Report, partitions: int) -> tuple[Mover, list[Node]]:
    """A mover for a complete cluster, after finishing what was begun in it."""
    mover = Mover(known, report)
    mover.look()
    _check_all_up(known)
    mover.mend(partitions)
    nodes = mover.look()
    missing = SLOTS - len(owners(nodes))
    if missing:
        raise TemporaryError(f"{missing} slots have no owner; start the missing shard before moving slots")
    return mover, nodes


def _check_all_up(known: Members) -> None:
    if known.down:
        reasons = "; ".join(known.down.values())
        raise UnavailableError(f"shards are down: {reasons}; start them before moving slots")


def _check_room(known: Members, plan: Sequence[Move]) -> None:
    """Raise TemporaryError if a target would be filled above nine tenths of its limit."""
    coming: dict[str, int] = {}
    for move in plan:
        coming[move.target] = coming.get(move.target, 0) + known.weigh(move.source, move.slots)
    for target, size in coming.items():
        used, limit = memory(known, target)
        if limit and used + size > _FULL * limit:
            raise TemporaryError(
                f"not enough memory: shard {known.place(target)} uses {used / 2**20:.0f} of {limit / 2**20:.0f} MiB "
                f"and would get {size / 2**20:.0f} MiB more; nothing was moved"
            )
