"""``shardpulse shards add|remove|drain|balance --addresses``: growing and shrinking a cluster that somebody else runs.

Servers are neither started nor stopped here, and nothing is remembered: each command asks the shards what is so, and
called again it finishes what was interrupted.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import closing

from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, ShardError, UsageError
from acquisition.link.cluster import Cluster, read_layout
from acquisition.link.credentials import Credentials
from acquisition.link.resp import Address, Connection
from acquisition.shards import growth, remote_command
from acquisition.shards.local_growth import ADD, BALANCE, REMOVE, Growth, result
from acquisition.shards.migrate import Moved
from acquisition.shards.nodes import Members, Node
from acquisition.stderr import speaker

DRAIN = "drain"


def add(options: argparse.Namespace, settings: config.Shards) -> int:
    """Take servers that somebody has started into the cluster: the first as a master with an even part of the
    partitions, the others as its replicas."""
    addresses, user = remote_command.named(options, settings)
    began = time.monotonic()
    newcomers = [remote_command.address_of(text) for text in options.server]
    if not newcomers:
        raise UsageError("name the server to add after `add`, as HOST:PORT; those after it become its replicas")
    with Members(addresses, user, settings.timeout_seconds) as known:
        members = [node.address for node in known.look()]
    remote_command.check_empty([one for one in newcomers if one not in members], user)
    staying = [one for one in members if one not in newcomers]
    partitions = _partitions(staying, user, settings.timeout_seconds)
    moved = growth.take_in(newcomers[0], staying, partitions, speaker("shards"), user, newcomers[1:])
    return _show(result(ADD, newcomers[0], moved, began), options.json)


def remove(options: argparse.Namespace, settings: config.Shards) -> int:
    """Empty a master, if it is one, and make all members forget it and its replicas, which then know nobody."""
    leaving, nodes, user, began = *_leaving(options, settings), time.monotonic()
    own = [node for node in nodes if node.address == leaving]
    followers = [node.address for node in nodes if own and node.master == own[0].id]
    staying = [node.address for node in nodes if node.address not in (leaving, *followers)]
    moved = _empty(own[0], staying, user, settings.timeout_seconds) if own else Moved()
    for address in (*followers, leaving):  # replicas first: alone, they would look for another master
        if any(node.address == address for node in nodes):
            _reset(address, user)
        growth.forget(address, staying, user)
    return _show(result(REMOVE, leaving, moved, began), options.json)


def drain(options: argparse.Namespace, settings: config.Shards) -> int:
    """Move all partitions of a master to the others, so that it can be stopped without anybody waiting for it. It stays
    a member, with its replicas; `balance` gives it its part again."""
    leaving, nodes, user, began = *_leaving(options, settings), time.monotonic()
    own = [node for node in nodes if node.address == leaving]
    if not own:
        raise ShardError(f"shard {leaving} does not answer, so nothing can be moved off it")
    staying = [node.address for node in nodes if node.address != leaving]
    moved = _empty(own[0], staying, user, settings.timeout_seconds)
    return _show(result(DRAIN, leaving, moved, began), options.json)


def balance(options: argparse.Namespace, settings: config.Shards) -> int:
    """Finish what was begun, and move partitions until all masters hold equally many, under load."""
    addresses, user = remote_command.named(options, settings)
    began = time.monotonic()
    partitions = _partitions(addresses, user, settings.timeout_seconds)
    moved = growth.even_out(addresses, partitions, speaker("shards"), user)
    return _show(result(BALANCE, None, moved, began), options.json)


def _leaving(options: argparse.Namespace, settings: config.Shards) -> tuple[Address, list[Node], Credentials]:
    """Who is to leave, whoever answers, and who asks them. Raises UsageError for one that nobody knows."""
    addresses, user = remote_command.named(options, settings)
    leaving = remote_command.address_of(options.shard)
    with Members(addresses, user, settings.timeout_seconds) as known:
        nodes = known.look()
        mentioned = {node.address for node in nodes} | {one.address for one in known.mentions if one.address}
    if leaving not in mentioned:
        raise UsageError(f"there is no shard {leaving}; there are {', '.join(sorted(map(str, mentioned)))}")
    return leaving, nodes, user


def _empty(own: Node, staying: Sequence[Address], user: Credentials, timeout: float) -> Moved:
    """Move off what a master holds; nothing to do for a replica, or one that holds nothing."""
    if own.master or not (own.slots or own.migrating or own.importing):
        return Moved()
    partitions = _partitions([own.address, *staying], user, timeout)
    return growth.empty(own.address, staying, partitions, speaker("shards"), user)


def _reset(address: Address, user: Credentials) -> None:
    """Make a member that owns nothing a server that knows nobody, as `form` and `add` take it."""
    with closing(Connection(address, user)) as connection:
        connection.call("CLUSTER", "RESET", "HARD")


def _partitions(addresses: Sequence[Address], user: Credentials, timeout: float) -> int:
    with closing(Cluster(addresses, user, timeout)) as cluster:
        return read_layout(cluster).partitions


def _show(done: Growth, as_json: bool) -> int:
    print(json.dumps(done._asdict()) if as_json else done.text())
    return EXIT_OK
