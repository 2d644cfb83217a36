"""Removal of a host from the shards, in one transaction in its partition.

Every writer to a partition leaves a fresh commit id, so the worker that holds the partition sees a foreign one and
reloads the state in the shard: the host without its positions, names and account. The positions become dormant, as
those of an expired host: if it ever comes back, it continues counting.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from acquisition.errors import DataError, FrameError, TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Connection, raise_for
from acquisition.model.identity import host_id
from acquisition.wire import keys, position, seen, status
from acquisition.wire.layout import Layout
from acquisition.wire.position import ENDED, Position

SENDS, SILENT, STOPPED, EXPIRED = "sends", "silent", "stopped", "expired"
_ATTEMPTS = 200  #: a partition is committed at most a hundred times a second


class Listed(NamedTuple):
    """A host. ``state``: SENDS, SILENT for ``down_after`` seconds, STOPPED in order, or EXPIRED. ``last`` is when its
    newest samples were taken, in seconds since 1970; 0.0 if there are none."""

    host: int
    name: str
    state: str
    last: float


def read(cluster: Cluster, layout: Layout, down_after: float) -> list[Listed]:
    """All hosts known to the shards, by name. Raises ShardError, TemporaryError and PermissionRefused."""
    commands = [
        (keys.applied(tag), command)
        for tag in layout.tags
        for command in (("HGETALL", keys.applied(tag)), ("HGETALL", keys.dormant(tag)), ("TIME",))
    ]
    replies = list(map(raise_for, cluster.gather(commands)))
    found: dict[int, Listed] = {}
    for applied, dormant, clock in zip(replies[::3], replies[1::3], replies[2::3], strict=True):
        expired = (seen.decode(*pair) for pair in _pairs(dormant))
        found |= {one.host: Listed(one.host, one.name, EXPIRED, one.last) for one in expired if one is not None}
        now = int(clock[0]) + int(clock[1]) / 1e6
        found |= {host: _judged(host, sets, now - down_after) for host, sets in _by_host(applied).items()}
    here = [host for host, one in found.items() if one.state != EXPIRED]
    names = [keys.status(layout.tag_of(host), host) for host in here]
    for host, reply in zip(here, cluster.gather([(name, ("GET", name)) for name in names]), strict=True):
        found[host] = found[host]._replace(name=_name(host, raise_for(reply)))
    return sorted(found.values(), key=lambda one: (one.name, one.host))


def _by_host(rows: Sequence[bytes]) -> dict[int, list[Position]]:
    hosts: dict[int, list[Position]] = {}
    for member, data in _pairs(rows):
        named = keys.parse_member(member)
        if named is not None:
            sets = hosts.setdefault(named[0], [])
            try:
                sets.append(position.decode(data))
            except FrameError:
                continue  # reported by `status`
    return hosts


def _judged(host: int, sets: Sequence[Position], before: float) -> Listed:
    """A host, silent if it has nothing newer than ``before``, or than three of its intervals."""
    last = max((one.wall for one in sets), default=0.0)
    patience = 3.0 * min((one.interval for one in sets), default=0.0)
    ended = bool(sets) and all(one.flags & ENDED for one in sets)
    return Listed(host, "", STOPPED if ended else SENDS if last > before - patience else SILENT, last)


def _name(host: int, data: Any) -> str:
    """Name in its probe's status, else its id."""
    try:
        return status.decode(data).host_name if isinstance(data, bytes) else f"{host:016x}"
    except FrameError:
        return f"{host:016x}"


def _pairs(rows: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(rows[::2], rows[1::2], strict=True)


def chosen(hosts: Sequence[Listed], names: Sequence[str]) -> list[Listed]:
    """Hosts with these names or ids in hexadecimal.

    Raises DataError for an unknown one, TemporaryError for one that sends: it would come back at once."""
    found: Mapping[str, list[Listed]] = {
        name: [one for one in hosts if name in (one.name, f"{one.host:016x}") or one.host == host_id(name)]
        for name in names
    }
    for name, ones in found.items():
        if not ones:
            raise DataError(f"unknown host {name}; `shardpulse hosts` lists known hosts")
        if any(one.state == SENDS for one in ones):
            raise TemporaryError(f"host {name} is sending, or was a moment ago; stop its probe first")
    return list(dict.fromkeys(one for ones in found.values() for one in ones))


def forget(cluster: Cluster, layout: Layout, host: int) -> None:
    """Remove a host from the shards. Raises ShardError, TemporaryError and PermissionRefused."""
    tag = layout.tag_of(host)
    with closing(cluster.connect(cluster.owner(keys.commit(tag)))) as connection:
        for _ in range(_ATTEMPTS):
            if _try(connection, tag, host):
                return
    raise TemporaryError(f"{keys.commit(tag)} changes too often to be updated; try again")


def _try(connection: Connection, tag: str, host: int) -> bool:
    """Forget it, unless a filter commits at the same moment."""
    key, applied, dormant = keys.commit(tag), keys.applied(tag), keys.dormant(tag)
    _, before, rows = map(raise_for, connection.pipeline([("WATCH", key), ("GET", key), ("HGETALL", applied)]))
    field = f"{host:016x}".encode()
    held = {member: data for member, data in _pairs(rows) if member.startswith(field)}
    sets = [found[1] for member in held if (found := keys.parse_member(member)) is not None]
    names = [keys.names(tag, host, resource_set) for resource_set in sets]
    commands: list[tuple[Any, ...]] = [("MULTI",), ("HDEL", dormant, field), ("DEL", keys.status(tag, host), *names)]
    if held:
        commands.append(("HSET", dormant, *(word for pair in held.items() for word in pair)))
        commands.append(("HDEL", applied, *held))
    if before is not None:
        fresh = os.urandom(8).hex().encode()
        commands.append(("SET", key, fresh + before[len(position.id_of(before)) :]))
    replies = connection.pipeline([*commands, ("EXEC",)])
    for reply in replies[:-1]:
        raise_for(reply)
    return raise_for(replies[-1]) is not None
