"""Failover before the restart of a dead master: a replica takes its place.

Nothing is on disk, so a master comes back empty. Restarted at its place within the cluster's node timeout it
would be taken for the former one, and its replicas would copy its emptiness (measured; docs/decisions/0131).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from acquisition.errors import ShardError, TemporaryError
from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.topology.nodes import Members, Node, pairs

_QUORUM_MASTERS = 3  #: with this many masters, two can elect a replica by themselves
_ELECTION_SECONDS = 12.0  #: node timeout, voting, and the replica's delay
_LOOK_SECONDS = 0.1


def ensure_taken_over(dead: Address, alive: Sequence[Address], credentials: Credentials | None = None) -> bool:
    """Wait until a replica has taken over from the dead server at ``dead``; False if it had none.

    With three masters or more the replicas elect one; with fewer, or if they do not in time, the one that has
    received most is forced to take over (CLUSTER FAILOVER TAKEOVER: the caller knows that the master is dead).
    Raises TemporaryError if the replica does not.
    """
    if not alive:
        return False
    with Members(alive, credentials) as members:
        nodes = members.look()
        if not _heirs(members, nodes, dead):
            return False
        masters = {node.master or node.id for node in nodes if node.slots or node.master}
        election = time.monotonic() + (_ELECTION_SECONDS if len(masters) >= _QUORUM_MASTERS else 0.0)
        end = time.monotonic() + 2 * _ELECTION_SECONDS
        while _owns(members, dead):
            if time.monotonic() > end:
                raise TemporaryError(f"no replica took over from shard {dead}; try again")
            if time.monotonic() > election:
                _take_over(members, _heirs(members, nodes, dead))
            time.sleep(_LOOK_SECONDS)
            nodes = members.look()
        return True


def _owns(members: Members, dead: Address) -> bool:
    """Whether any member still takes the dead server for the owner of slots."""
    return any(mention.address == dead and mention.owns_slots for mention in members.mentions)


def _heirs(members: Members, nodes: Sequence[Node], dead: Address) -> list[Node]:
    """Its replicas that have ever finished a synchronization, in descending order of data received."""
    ids = {mention.id for mention in members.mentions if mention.address == dead}
    received = [(_received(members, node), node) for node in nodes if node.master in ids]
    return [node for offset, node in sorted(received, key=lambda pair: -pair[0]) if offset >= 0]


def replication(members: Members, node: Node) -> dict[str, str]:
    """Fields of a member's INFO replication."""
    return pairs(members.call(node.id, "INFO", "replication"))


def _received(members: Members, node: Node) -> int:
    """Amount of data received by a replica, -1 if it never had a link to its master or is still copying."""
    figures = replication(members, node)
    linked = figures.get("master_link_status") == "up" or figures.get("master_link_down_since_seconds") != "-1"
    if not linked or figures.get("master_sync_in_progress") != "0":
        return -1
    return int(figures["slave_repl_offset"])


def _take_over(members: Members, heirs: Sequence[Node]) -> None:
    for heir in heirs:
        try:
            members.call(heir.id, "CLUSTER", "FAILOVER", "TAKEOVER")
            return
        except ShardError:
            continue
