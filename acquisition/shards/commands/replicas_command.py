"""``shardpulse shards replicas --addresses``: place replicas on other machines."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from acquisition import help_text
from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, UnavailableError, UsageError
from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials
from acquisition.log import Category
from acquisition.shards.commands import remote_command
from acquisition.shards.topology import growth, join, placing
from acquisition.shards.topology.nodes import Members, Node

_SECONDS = 60.0  #: for the first synchronization of a replica
_ROUNDS = 5  #: Redis moves replicas as well: the state is read again


class Placed(NamedTuple):
    """Result of placing replicas: (replica, its master) in turn; ``masters`` is their number, with ``each``
    replicas."""

    placed: list[tuple[str, str]]
    masters: int
    each: int
    seconds: float

    def text(self) -> str:
        """Readable form."""
        done = [f"shard {replica} follows {master}" for replica, master in self.placed]
        return "\n".join([*done, f"each of {self.masters} masters has {self.each} replicas on other machines"])


def replicas(options: argparse.Namespace, settings: config.Shards) -> int:
    """Place the replicas of each master on other machines. Given empty servers are added; replicas that are on the
    machine of their master, or that another master needs more, change masters. The former entry of a server that was
    reset is removed. No partition moves; running it again changes nothing."""
    addresses, user = remote_command.named(options, settings)
    each = settings.replicas if options.each is None else options.each
    task = _Task(
        [remote_command.address_of(text) for text in options.server],
        {remote_command.address_of(text) for text in _split(options.leaving)},
        {host: group for group in options.together for host in group.split(",")},
        each,
    )
    began, done = time.monotonic(), list[tuple[str, str]]()
    for _ in range(_ROUNDS):
        with Members(addresses, user, settings.timeout_seconds) as known:
            cluster = _look(known, task, user)
            plan = placing.place(*cluster.board, each)
            for step in plan.steps:
                done.append(_follow(cluster, step, user))
        if not plan.steps:
            break
    if plan.lacking:
        alone = ", ".join(sorted(str(cluster.nodes[name].address) for name in plan.lacking))
        raise UsageError(
            f"masters without {each} replicas: {alone}; no free server on another machine; start one and "
            "give its address"
        )
    told = Placed(done, len(cluster.board.masters), each, round(time.monotonic() - began, 3))
    print(json.dumps(told._asdict()) if options.json else told.text())
    return EXIT_OK


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command beside --addresses and --config."""
    parser.add_argument("server", nargs="*", metavar="HOST:PORT", help="empty servers to add as replicas, used first")
    parser.add_argument(
        "--each", type=help_text.whole(0, 8), metavar="N",
        help="number of replicas per master (default: [shards] replicas)",
    )  # fmt: skip
    parser.add_argument("--leaving", metavar="HOST:PORT,...", help="members about to leave, counted as gone")
    parser.add_argument(
        "--together", action="append", default=[], metavar="HOST,HOST,...",
        help="machines that may fail together; repeatable (default: each on its own)",
    )  # fmt: skip


class _Task(NamedTuple):
    """Request of an operator: the servers by name, those that leave, and host -> what may fail together with it."""

    servers: list[Address]
    leaving: set[Address]
    together: Mapping[str, str]
    each: int

    def place(self, address: Address) -> str:
        return self.together.get(address.host, address.host)


class _Board(NamedTuple):
    """Input of ``placing.place``."""

    places: dict[str, str]
    masters: list[str]
    following: dict[str, str]
    spare: list[str]


class _Cluster(NamedTuple):
    """All answering servers by id, those of them that know no others, and the input of the plan."""

    nodes: dict[str, Node]
    strangers: set[str]
    board: _Board


def _look(known: Members, task: _Task, user: Credentials) -> _Cluster:
    """Raise UnavailableError while a master is down, UsageError for a server that cannot become a replica."""
    found = known.look()
    if known.down:
        raise UnavailableError(
            f"a shard is down: {'; '.join(known.down.values())}; wait until a replica has taken over"
        )
    mentioned = {mention.id for mention in known.mentions}
    members = [node for node in found if node.slots or node.id in mentioned]
    newcomers = [_newcomer(address, members, user) for address in task.servers]
    staying = [node for node in members if node.address not in task.leaving]
    masters = [node.id for node in staying if node.slots]
    following = {node.id: node.master for node in staying if node.master in masters}
    nodes = {node.id: node for node in (*members, *newcomers)}
    return _Cluster(
        nodes,
        {node.id for node in newcomers} - {node.id for node in members},
        _Board(
            {name: task.place(node.address) for name, node in nodes.items()},
            masters,
            following,
            [node.id for node in newcomers if node.id not in following],
        ),
    )


def _newcomer(address: Address, members: Sequence[Node], user: Credentials) -> Node:
    """A given server: a member that owns nothing, or one that knows no others."""
    for node in members:
        if node.address == address:
            if node.slots:
                raise UsageError(
                    f"shard {address} is a master with partitions; empty it with `shardpulse shards drain`"
                )
            return node
    remote_command.check_empty([address], user)
    with Members([address], user) as alone:
        return next(node for node in alone.look() if node.address == address)


def _follow(cluster: _Cluster, step: placing.Step, user: Credentials) -> tuple[str, str]:
    replica, master = cluster.nodes[step.replica].address, cluster.nodes[step.master].address
    others = [node.address for node in cluster.nodes.values() if node.id in cluster.board.masters]
    Category("shards")(f"shard {replica} is to follow {master}")
    if step.replica in cluster.strangers:
        growth.forget(replica, others, user)  # whatever its former role
    join.replicate(replica, master, _SECONDS, user)
    growth.wait_for_names([*others, replica], user)
    return str(replica), str(master)


def _split(text: str | None) -> list[str]:
    return text.split(",") if text else []
