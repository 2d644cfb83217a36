"""``shardpulse shards add``, ``remove``, ``balance``: resize a cluster under load."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from acquisition.config import endpoints
from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, ConfigError, ShardError, UnavailableError, UsageError
from acquisition.link import state_directory
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Address, Connection
from acquisition.link.trust.credentials import Credentials
from acquisition.log import Category
from acquisition.shards.commands import remote_command
from acquisition.shards.servers import local_growth
from acquisition.shards.servers.launch import Shards, running
from acquisition.shards.servers.local_growth import ADD, BALANCE, REMOVE, Growth, result
from acquisition.shards.topology import growth
from acquisition.shards.topology.migrate import Moved, Report
from acquisition.shards.topology.nodes import Members, Node


def add(options: argparse.Namespace, settings: config.Shards) -> int:
    """Start one more shard, pinned to its own core while there is one, and move an even share of the partitions to it
    while probes and filters keep running. No data is lost; each partition pauses for a fraction of a second. An
    interrupted command is finished by running it again. With --addresses, running servers are added instead: the first
    becomes a master, the others its replicas."""
    if options.addresses:
        return _add_of_others(options, settings)
    if options.server:
        raise UsageError("a server to add can be given only with --addresses; local shards are started automatically")

    def action(shards: Shards, report: Report) -> Growth:
        core = options.core[0] if options.core else None
        return local_growth.add(shards, report, core, options.port or 0, options.maxmemory or 0, directives(settings))

    return _run(options, settings, action)


def remove(options: argparse.Namespace, settings: config.Shards) -> int:
    """Move all partitions of one shard to the others, remove it from the cluster, and stop it and its replicas. The
    last shard cannot be removed. An interrupted command is finished by running it again. With --addresses, the servers
    are removed from the cluster and reset, but not stopped."""
    if options.addresses:
        return _remove_of_others(options, settings)
    return _run(options, settings, lambda shards, report: local_growth.remove(shards, options.shard, report))


def balance(options: argparse.Namespace, settings: config.Shards) -> int:
    """Finish an interrupted add or remove; otherwise move partitions until all shards have the same number, give or
    take one."""
    if options.addresses:
        return _balance_of_others(options, settings)
    return _run(options, settings, local_growth.balance)


def directives(settings: config.Shards) -> dict[str, str]:
    """Directives from the configuration for every redis-server.

    Raises ConfigError if shards would wait for more replicas than they have.
    """
    least = settings.min_replicas_to_write
    if least > settings.replicas:
        raise ConfigError(
            f"shards.min_replicas_to_write is {least} but shards.replicas only {settings.replicas}: shards "
            "would refuse all frames"
        )
    return {"min-replicas-to-write": str(least)} if least else {}


def _run(options: argparse.Namespace, settings: config.Shards, action: Callable[[Shards, Report], Growth]) -> int:
    directory = endpoints.directory(settings)
    if running(directory) is None:
        raise UnavailableError(f"no shards are running in {directory}: `shardpulse shards up` starts them")
    with state_directory.locked(directory):
        shards = _running(directory)
        done = action(shards, Category("shards"))
    _print(done, shards, options.json)
    return EXIT_OK


def _running(directory: Path) -> Shards:
    """Read again under the lock: an earlier command may have just changed it."""
    shards = running(directory)
    if shards is None:
        raise UnavailableError(f"no shards are running in {directory}: `shardpulse shards up` starts them")
    return shards


def _print(done: Growth, shards: Shards, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**done._asdict(), "shards": [str(address) for address in shards.addresses]}))
        return
    print(done.text())


# -- The same with --addresses, and ``drain``: growing and shrinking a cluster run elsewhere.
#
# Servers are neither started nor stopped here, and nothing is remembered: each command reads the state from the shards,
# and when repeated it finishes what was interrupted.

DRAIN = "drain"


def _add_of_others(options: argparse.Namespace, settings: config.Shards) -> int:
    """Add running servers to the cluster: the first as a master with an even part of the
    partitions, the others as its replicas."""
    addresses, user = remote_command.named(options, settings)
    began = time.monotonic()
    newcomers = [remote_command.address_of(text) for text in options.server]
    if not newcomers:
        raise UsageError("expected the server to add as HOST:PORT, optionally followed by its replicas")
    with Members(addresses, user, settings.timeout_seconds) as known:
        members = [node.address for node in known.look()]
    remote_command.check_empty([one for one in newcomers if one not in members], user)
    staying = [one for one in members if one not in newcomers]
    partitions = _partitions(staying, user, settings.timeout_seconds)
    moved = growth.take_in(newcomers[0], staying, partitions, Category("shards"), user, newcomers[1:])
    return _say(result(ADD, newcomers[0], moved, began), options.json)


def _remove_of_others(options: argparse.Namespace, settings: config.Shards) -> int:
    """Empty a master, if it is one, and make all members forget it and its replicas, which then know no others."""
    leaving, nodes, user, began = *_leaving(options, settings), time.monotonic()
    own = [node for node in nodes if node.address == leaving]
    followers = [node.address for node in nodes if own and node.master == own[0].id]
    staying = [node.address for node in nodes if node.address not in (leaving, *followers)]
    moved = _emptied(own[0], staying, user, settings.timeout_seconds) if own else Moved()
    for address in (*followers, leaving):  # replicas first: alone, they would look for another master
        if any(node.address == address for node in nodes):
            _reset(address, user)
        growth.forget(address, staying, user)
    return _say(result(REMOVE, leaving, moved, began), options.json)


def drain(options: argparse.Namespace, settings: config.Shards) -> int:
    """Move all partitions of a master to the others, so that it can be stopped without an interruption. It remains a
    member, with its replicas; `balance` returns its share."""
    leaving, nodes, user, began = *_leaving(options, settings), time.monotonic()
    own = [node for node in nodes if node.address == leaving]
    if not own:
        raise ShardError(f"shard {leaving} does not answer; its partitions cannot be moved")
    staying = [node.address for node in nodes if node.address != leaving]
    moved = _emptied(own[0], staying, user, settings.timeout_seconds)
    return _say(result(DRAIN, leaving, moved, began), options.json)


def _balance_of_others(options: argparse.Namespace, settings: config.Shards) -> int:
    """Finish what was begun, and move partitions until all masters hold the same number, under load."""
    addresses, user = remote_command.named(options, settings)
    began = time.monotonic()
    partitions = _partitions(addresses, user, settings.timeout_seconds)
    moved = growth.even_out(addresses, partitions, Category("shards"), user)
    return _say(result(BALANCE, None, moved, began), options.json)


def _leaving(options: argparse.Namespace, settings: config.Shards) -> tuple[Address, list[Node], Credentials]:
    """The leaving shard, members to ask, and the user. Raises UsageError for an unknown shard."""
    addresses, user = remote_command.named(options, settings)
    leaving = remote_command.address_of(options.shard)
    with Members(addresses, user, settings.timeout_seconds) as known:
        nodes = known.look()
        mentioned = {node.address for node in nodes} | {one.address for one in known.mentions if one.address}
    if leaving not in mentioned:
        raise UsageError(f"unknown shard {leaving}; shards are {', '.join(sorted(map(str, mentioned)))}")
    return leaving, nodes, user


def _emptied(own: Node, staying: Sequence[Address], user: Credentials, timeout: float) -> Moved:
    """Move everything off a master; nothing to do for a replica, or an empty master."""
    if own.master or not (own.slots or own.migrating or own.importing):
        return Moved()
    partitions = _partitions([own.address, *staying], user, timeout)
    return growth.empty(own.address, staying, partitions, Category("shards"), user)


def _reset(address: Address, user: Credentials) -> None:
    """Reset a member that owns nothing to a server that knows no others, as required by `form` and `add`."""
    with closing(Connection(address, user)) as connection:
        connection.call("CLUSTER", "RESET", "HARD")


def _partitions(addresses: Sequence[Address], user: Credentials, timeout: float) -> int:
    with closing(Cluster(addresses, user, timeout)) as cluster:
        return read_layout(cluster).partitions


def _say(done: Growth, as_json: bool) -> int:
    print(json.dumps(done._asdict()) if as_json else done.text())
    return EXIT_OK
