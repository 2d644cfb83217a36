"""``shardpulse shards handover --addresses``: promote a replica of a live master.

The former master may then be restarted.

Redis does it without loss (CLUSTER FAILOVER): the master lets its clients wait until the replica has received all its
data, and hands over its partitions. The master then becomes a replica of its heir.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, ShardError, TemporaryError, UsageError
from acquisition.link.resp import Address
from acquisition.shards.commands import remote_command
from acquisition.shards.topology.failover import replication
from acquisition.shards.topology.nodes import Members, Node

_SECONDS = 60.0  #: for a replica to synchronize and take over
_AGAIN_SECONDS = 6.0  #: Redis gives up a handover after five seconds
_LOOK_SECONDS = 0.1


class Handed(NamedTuple):
    """Result of a handover; ``heir`` is "" if there was nothing to do."""

    shard: str
    heir: str
    slots: int
    seconds: float

    def text(self) -> str:
        """Readable form."""
        if not self.heir:
            return f"shard {self.shard} owns no partitions; nothing to hand over"
        return f"shard {self.heir} took over from {self.shard} in {self.seconds:.1f} s; {self.shard} is now its replica"


def handover(options: argparse.Namespace, settings: config.Shards) -> int:
    """Promote a replica of a running master without loss, so that the master may be restarted: it becomes a replica.
    Does nothing if the shard already is a replica."""
    addresses, user = remote_command.named(options, settings)
    leaving = remote_command.address_of(options.shard)
    chosen = remote_command.address_of(options.to) if options.to else None
    with Members(addresses, user, settings.timeout_seconds) as members:
        done = hand_over(members, leaving, chosen)
    print(json.dumps(done._asdict()) if options.json else done.text())
    return EXIT_OK


def hand_over(members: Members, leaving: Address, chosen: Address | None = None) -> Handed:
    """Wait until a replica of the master at ``leaving``, the one at ``chosen`` if any, owns its slots, and all
    members know. Raises UsageError if these are not such a pair, ShardError for a master without a replica,
    TemporaryError if none takes over in a minute."""
    began = time.monotonic()
    nodes = members.look()
    own = _member(nodes, leaving)
    if own.master or not own.slots:
        return Handed(str(leaving), "", 0, 0.0)
    if own.migrating or own.importing:
        raise ShardError(
            f"partitions of shard {leaving} are being moved; `shardpulse shards balance` finishes the move"
        )
    followers = _followers(nodes, own, chosen)
    asked = -math.inf
    while (heir := _heir(members, own, nodes)) is None:
        now = time.monotonic()
        if now - began > _SECONDS:
            raise TemporaryError(f"no replica of shard {leaving} took over within {_SECONDS:.0f} s; try again")
        still_master = any(node.id == own.id and not node.master for node in nodes)
        if still_master and now - asked > _AGAIN_SECONDS and _ask(members, followers):
            asked = now
        time.sleep(_LOOK_SECONDS)
        nodes = members.look()
    return Handed(str(leaving), str(heir.address), len(own.slots), time.monotonic() - began)


def _member(nodes: Sequence[Node], address: Address) -> Node:
    for node in nodes:
        if node.address == address:
            return node
    raise UsageError(
        f"shard {address} does not answer or is unknown; shards are "
        f"{', '.join(sorted(str(node.address) for node in nodes))}"
    )


def _followers(nodes: Sequence[Node], own: Node, chosen: Address | None) -> list[Node]:
    followers = [node for node in nodes if node.master == own.id]
    if chosen is not None and _member(nodes, chosen) not in followers:
        raise UsageError(f"shard {chosen} is not a replica of {own.address}")
    if not followers:
        raise ShardError(
            f"shard {own.address} has no replica that can take over; `shardpulse shards drain` moves its partitions"
        )
    return [node for node in followers if chosen in (None, node.address)]


def _ask(members: Members, followers: Sequence[Node]) -> bool:
    """Make the replica that has received most take over; False while none is in sync."""
    told = [(replication(members, node), node) for node in followers if members.knows(node.id)]
    ready = [
        (int(figures["slave_repl_offset"]), node.id)
        for figures, node in told
        if figures.get("master_link_status") == "up" and figures.get("master_sync_in_progress") == "0"
    ]
    for _, name in sorted(ready, reverse=True):
        try:
            members.call(name, "CLUSTER", "FAILOVER")
        except ShardError:  # it believes it has just lost its master: another one, or later
            continue
        return True
    return False


def _heir(members: Members, own: Node, nodes: Sequence[Node]) -> Node | None:
    """New master of the old one, once every member knows that it owns the slots."""
    followed = {node.master for node in nodes if node.id == own.id}
    for node in nodes:
        if node.id in followed:
            told = [members.owners_known_to(one.id).get(node.id, frozenset()) for one in nodes]
            return node if all(own.slots <= slots for slots in told) else None
    return None
