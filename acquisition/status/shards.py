"""Status of every cluster member, masters and replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from acquisition.errors import PermissionRefused, ShardpulseError
from acquisition.link.resp import Address
from acquisition.shards.servers import machine
from acquisition.shards.servers.status import MASTER, REPLICA, ShardStatus, common, number
from acquisition.shards.topology.nodes import Members, Mention, Node, pairs
from acquisition.wire.keys import SLOTS


def read(members: Members) -> list[ShardStatus]:
    """Every member known to another one, replicas after their master; and seeds that do not answer, unless
    they are ``strangers``. Raises UnavailableError if none answers, PermissionRefused if all that answer refuse."""
    nodes = {node.id: node for node in members.look(partly=True)}
    figures = {node.id: _figures(members, node) for node in nodes.values()}
    refusals = [one for one in figures.values() if isinstance(one, PermissionRefused)]
    if refusals and not any(isinstance(one, dict) for one in figures.values()):
        raise refusals[0]
    places = {mention.id: str(mention.address) for mention in members.mentions if mention.address is not None}
    rows = [_health(node, figures, places.get(node.master, "")) for node in nodes.values()]
    rows += _refusing(members, places)
    known = {node.address for node in nodes.values()} | members.refusing.keys()
    rows += _silent(members.silent, members.mentions, known)
    if sum(row.slots for row in rows) >= SLOTS:  # else a seed may be the missing part
        nobodies = {str(address) for address in _unmentioned(members)}
        rows = [row for row in rows if row.address not in nobodies]
    return sorted(rows, key=lambda row: (row.replica_of or row.address, row.role == REPLICA, row.address))


def strangers(members: Members, rows: Iterable[ShardStatus]) -> dict[Address, str]:
    """Seeds that do not answer and are not shards, with the reason: no member knows them (they are gone, and
    forgotten), and members serve all slots. ``rows`` is the result of ``read``."""
    listed = {row.address for row in rows}
    return {
        address: _reason(address, reason) for address, reason in members.silent.items() if str(address) not in listed
    }


def _unmentioned(members: Members) -> set[Address]:
    return set(members.silent) - {mention.address for mention in members.mentions if mention.address is not None}


def _figures(members: Members, node: Node) -> dict[str, str] | ShardpulseError:
    """INFO as a mapping; the error of a shard that has gone since."""
    try:
        return pairs(members.call(node.id, "INFO"))
    except ShardpulseError as error:
        return error


def _health(node: Node, figures: Mapping[str, dict[str, str] | ShardpulseError], leader: str) -> ShardStatus:
    blank = ShardStatus(str(node.address), False, role=REPLICA if node.master else MASTER)
    own = figures[node.id]
    if isinstance(own, PermissionRefused):
        return blank._replace(
            problem=_reason(node.address, str(own)), refuses=True, slots=len(node.slots), replica_of=leader
        )
    if isinstance(own, ShardpulseError):
        return blank._replace(problem=_reason(node.address, str(own)))
    replica = own.get("role") == "slave"
    pid = number(own, "process_id")
    cores = _cores(pid, node.address)
    return blank._replace(
        answering=True,
        **common(own, node, leader),
        lag_bytes=_lag(own, figures.get(node.master)) if replica else None,
        cores=cores,
        pinned=cores.isdigit() if cores else None,
        pid=pid,
        uptime_seconds=number(own, "uptime_in_seconds"),
        version=own.get("valkey_version") or own.get("redis_version", ""),
        clock=number(own, "server_time_usec") / 1e6,
    )


def _refusing(members: Members, places: Mapping[str, str]) -> list[ShardStatus]:
    """Members that refused this user's question for their identity, as known to others."""
    rows = []
    for address, error in members.refusing.items():
        row = ShardStatus(str(address), False, _reason(address, str(error)), refuses=True)
        for mention in members.mentions:
            if mention.address == address:
                role, leader = (REPLICA, places.get(mention.master, "")) if mention.master else (MASTER, "")
                row = row._replace(role=role, replica_of=leader, slots=max(row.slots, mention.slots))
        rows.append(row)
    return rows


def _lag(replica: dict[str, str], master: dict[str, str] | ShardpulseError | None) -> int | None:
    if not isinstance(master, dict):
        return None
    return max(0, number(master, "master_repl_offset") - number(replica, "slave_repl_offset"))


def _cores(pid: int, address: Address) -> str:
    """Cores that the threads of a shard may run on; "" unless the process is on this machine."""
    with contextlib.suppress(OSError):
        title = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"redis" in title and b":%d" % address.port in title:
            return machine.cores_of(pid)
    return ""


def _silent(reasons: Mapping[Address, str], mentions: Iterable[Mention], known: set[Address]) -> list[ShardStatus]:
    """Members and seeds that did not answer."""
    rows: dict[Address, ShardStatus] = {
        address: ShardStatus(str(address), False, _reason(address, reason)) for address, reason in reasons.items()
    }
    for mention in mentions:
        if mention.address is not None and mention.address not in known:
            row = rows.setdefault(mention.address, ShardStatus(str(mention.address), False, "does not answer"))
            role = REPLICA if mention.master else MASTER
            rows[mention.address] = row._replace(role=role)
    return list(rows.values())


def _reason(address: Address, reason: str) -> str:
    """The reason without the address, which is shown next to it."""
    return reason.removeprefix(f"shard {address}").lstrip(": ")
