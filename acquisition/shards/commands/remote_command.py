"""``shardpulse shards form``, ``status --addresses``: shards run elsewhere.

There is no state file: members, owners and health are read from the shards each time, as the user of the configuration,
and over TLS if ``[shards] tls_ca`` is set.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from acquisition.config import endpoints
from acquisition.config import loader as config
from acquisition.errors import EXIT_CONFIG, EXIT_OK, EXIT_UNAVAILABLE, AdmissionError, ShardpulseError, UsageError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout, write_layout
from acquisition.link.resp import Address, Connection, ReplyError, parse_address
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.servers import resilience
from acquisition.shards.servers import status as shard_status
from acquisition.shards.servers.status import ShardStatus
from acquisition.shards.topology import growth, join, nodes
from acquisition.shards.topology.nodes import Members, Node
from acquisition.wire import keys

# -- The users of each shard (ACL LIST), compared: a replica without a change refuses its users after a failover.

Rules = tuple[str, ...]  #: of a user: root rules, then those of its selectors


def read_users(members: Members, nodes: list[Node]) -> dict[Address, dict[str, Rules]]:
    """Users of every member that shows them to the caller."""
    found = {}
    for node in nodes:
        (reply,) = members.pipeline(node.id, [("ACL", "LIST")])
        if not isinstance(reply, ReplyError):  # an observer may not ask
            found[node.address] = dict(map(_parsed, reply))
    return found


def differing_users(lists: Mapping[Address, dict[str, Rules]]) -> dict[Address, list[str]]:
    """Users whose rules on a shard differ from those on most, by shard; empty if all agree."""
    users = {user for rules in lists.values() for user in rules}
    usual = {user: _most([rules.get(user) for rules in lists.values()]) for user in users}
    found = {
        address: sorted(user for user in users if rules.get(user) != usual[user]) for address, rules in lists.items()
    }
    return {address: names for address, names in found.items() if names}


def _most(values: list[Rules | None]) -> Rules | None:
    """Rules of most servers; in a tie, those of the first."""
    return Counter(values).most_common(1)[0][0]


def _parsed(line: Any) -> tuple[str, Rules]:
    """Name and rules. The order of words and selectors is undefined: a shard keeps commands in its own table."""
    _, name, rules = line.decode().split(" ", 2)
    root, *selectors = re.split(r" ?\(", rules)
    return name, (_sorted(root), *sorted(_sorted(one.rstrip(")")) for one in selectors))


def _sorted(words: str) -> str:
    return " ".join(sorted(words.split()))


_SECONDS = 30.0


def form(options: argparse.Namespace, settings: config.Shards) -> int:
    """Form one cluster of empty running servers, configured as by `shards render`, and write the layout: the first
    addresses become masters, the others their replicas in turn. Running it again for a complete cluster changes
    nothing."""
    addresses, user = named(options, settings)
    replicas = settings.replicas if options.replicas is None else options.replicas
    masters, rest = divmod(len(addresses), 1 + replicas)
    if rest or not masters:
        raise UsageError(
            f"--addresses: {len(addresses)} servers cannot be divided into masters with {replicas} replicas each"
        )
    followed = {replica: addresses[number % masters] for number, replica in enumerate(addresses[masters:])}
    is_new = not _is_formed(addresses, user)
    if is_new:
        check_empty(addresses, user)
        join.form(addresses[:masters], seconds=_SECONDS, credentials=user)
        for replica, master in followed.items():
            join.replicate(replica, master, _SECONDS, user)
        growth.wait_for_names(addresses, user)
    with closing(Cluster(addresses, user, settings.timeout_seconds)) as cluster:
        write_layout(cluster, settings.partitions, options.keep_ticks)
    if is_new:
        join.wait_received(followed, _SECONDS, user)
    return _show(addresses, user, settings.timeout_seconds, options.json)


def status(options: argparse.Namespace, settings: config.Shards) -> int:
    """Show all members known to the given shards. The exit code tells whether all of them serve, and with the same
    users. Risks from the loss of a shard or machine follow."""
    addresses, user = named(options, settings)
    return _show(addresses, user, settings.timeout_seconds, options.json)


def line(row: ShardStatus) -> str:
    """Readable line for a shard, from its answers."""
    if not row.answering:
        return f"{row.address}  NOT ANSWERING: {row.problem}"
    if row.role == "replica":
        state = "in sync" if row.in_sync else "NOT IN SYNC"
        return f"{row.address}  cluster {row.cluster_state}  replica of {row.replica_of}, {state}"
    leaving = f" ({len(row.slots_leaving)} leaving)" if row.slots_leaving else ""
    arriving = f" ({len(row.slots_arriving)} arriving)" if row.slots_arriving else ""
    followed = f"  replicas {row.replicas}" if row.replicas else ""
    return (
        f"{row.address}  cluster {row.cluster_state}  slots {row.slots}{leaving}{arriving}{followed}"
        f"  memory {row.memory_bytes / 2**20:.1f} of {row.memory_limit_bytes / 2**20:.0f} MiB"
        f"  {row.commands_per_second} commands/s  {row.clients} clients  {row.frames_kept} frames kept"
    )


def named(options: argparse.Namespace, settings: config.Shards) -> tuple[list[Address], Credentials]:
    """The given addresses, and the user that asks them."""
    named = endpoints.with_addresses(settings, options.addresses)
    seeds = [address for address in endpoints.seeds(named) if isinstance(address, Address)]
    return seeds, endpoints.credentials(named)


def address_of(text: str) -> Address:
    """Address of a shard, as given. Raises UsageError."""
    try:
        return parse_address(text)
    except ValueError as error:
        raise UsageError(f"invalid address {text!r}: expected HOST:PORT: {error}") from error


def _is_formed(addresses: list[Address], user: Credentials) -> bool:
    """Whether all of them are members of one cluster that owns every slot."""
    with Members(addresses[:1], user) as members:
        found = members.look()
        owned = sum(len(node.slots) for node in found if not node.master)
        return owned == keys.SLOTS and set(addresses) <= {node.address for node in found}


def check_empty(addresses: Sequence[Address], user: Credentials) -> None:
    """Raise UsageError for a server that is already a member, ShardError for one that does not answer."""
    for address in addresses:
        with closing(Connection(address, user)) as connection:
            text = connection.call("CLUSTER", "NODES")
        if nodes.others(text, address) or nodes.own(text, address).slots:
            raise UsageError(f"shard {address} is already a member of a cluster; give servers that are in none")


def _show(addresses: list[Address], user: Credentials, timeout: float, as_json: bool) -> int:
    with Members(addresses, user, timeout) as members:
        found = members.look()
        differing = differing_users(read_users(members, found))
        silent = [ShardStatus(str(one), problem=reason) for one, reason in members.silent.items()]
    with closing(Cluster(addresses, user, timeout)) as cluster:
        partitions = _partitions(cluster)
    rows = sorted(shard_status.read_at([node.address for node in found], partitions, timeout, user) + silent)
    risks = resilience.risks(rows)
    if as_json:
        others = {str(address): users for address, users in differing.items()}
        found_of = [
            {**row.document(shard_status.SHOWN_OF_OTHERS), "other_users": others.get(row.address, [])} for row in rows
        ]
        print(json.dumps({"shards": found_of, "risks": [risk._asdict() for risk in risks]}, indent=2))
    else:
        for row in rows:
            print(line(row))
        for address, users in differing.items():
            print(f"{address}  ACL RULES DIFFER from most shards for {', '.join(users)}: users do not replicate")
        for risk in risks:
            print(risk.line())
    if not all(row.answering and row.cluster_state == "ok" for row in rows):
        return EXIT_UNAVAILABLE
    return EXIT_CONFIG if differing else EXIT_OK


def _partitions(cluster: Cluster) -> int:
    """Number of partitions in the layout, or the default if it cannot be read: frames are counted by partition.

    Raises AdmissionError.
    """
    try:
        return read_layout(cluster).partitions
    except AdmissionError:
        raise
    except ShardpulseError:
        return keys.DEFAULT_PARTITIONS
