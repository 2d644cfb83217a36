"""Records of the books: cursors, applied positions, the probes' own accounts.

All records of a partition are read in one transaction. A partition that moves between two shards or fails over
meanwhile is read again, so none of its records is older than another. Only while the keys of a partition are on two
shards are they read singly, cursor first; the balance holds then as well (``acquisition.snapshot.reconcile.balance``).

Records may hold anything: one that cannot be decoded becomes a line in ``problems``, with its key.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from acquisition.errors import FrameError, PermissionRefused, ShardError, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address, ReplyError, error_for
from acquisition.snapshot.reconcile.balance import ABSENT, DAMAGED, REPORTED, SILENT, Source
from acquisition.wire import keys, position, status
from acquisition.wire.layout import Layout
from acquisition.wire.position import Position
from acquisition.wire.status import Status

_ATTEMPTS = 5
_PAUSE = 0.02
_STATUS = re.compile(rb"status:\{([^{}]+)\}:([0-9a-f]{16})")


class PartitionRecords(NamedTuple):
    """Records from one transaction; replies are checked later. ``statuses`` are pairs of record and PTTL."""

    commit: Any
    applied: Any
    statuses: dict[int, tuple[Any, Any]]


def hosts_with_status(
    cluster: Cluster, layout: Layout, problems: list[str], missing: dict[str, ShardpulseError]
) -> dict[str, set[int]]:
    """Hosts with a status record, applied or not, by tag: SCAN on every shard that owns slots.

    A shard that does not answer is skipped: its partitions turn out to be unreadable later. Only
    those of one that refuses are added to ``missing`` here.
    """
    hosts: dict[str, set[int]] = {tag: set() for tag in layout.tags}
    names, refusals = _status_keys(cluster)
    owners = {tag: cluster.known_owner(keys.commit(tag)) for tag in layout.tags}
    missing.update((tag, refusals[owner]) for tag, owner in owners.items() if owner in refusals)
    for key in sorted(names):
        match = _STATUS.fullmatch(key)
        host = int(match[2], 16) if match is not None else 0
        if match is None or layout.tag_of(host).encode() != match[1]:
            problems.append(f"key {shown(key)}: not a host of its partition")
        else:
            hosts[layout.tag_of(host)].add(host)
    return hosts


def _status_keys(cluster: Cluster) -> tuple[set[bytes], dict[Address, PermissionRefused]]:
    found: set[bytes] = set()
    refusals: dict[Address, PermissionRefused] = {}
    for address in cluster.masters():
        try:
            connection = cluster.connect(address)
        except PermissionRefused as error:
            refusals[address] = error
            continue
        except ShardError:
            continue
        try:
            cursor: Any = b"0"
            while True:
                cursor, names = connection.call("SCAN", cursor, "MATCH", "status:{*", "COUNT", 1000)
                found.update(names)
                if cursor == b"0":
                    break
        except PermissionRefused as error:
            refusals[address] = error
        except ShardpulseError:
            continue
        finally:
            connection.close()
    return found, refusals


def read_partitions(cluster: Cluster, hosts: Mapping[str, set[int]]) -> dict[str, PartitionRecords]:
    """Each partition in one transaction; those being moved again, and finally one by one."""
    found: dict[str, PartitionRecords] = {}
    refused: dict[str, set[int]] = {}
    waiting = dict(hosts)
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE * attempt)
        commands = [
            (keys.commit(tag), command)
            for tag, members in waiting.items()
            for command in (("MULTI",), *_questions(tag, members), ("EXEC",))
        ]
        replies = iter(cluster.gather(commands))
        again = {}
        for tag, members in waiting.items():
            answers = [next(replies) for _ in range(len(_questions(tag, members)) + 2)]
            if any(isinstance(each, ReplyError) and _is_refusal(each) for each in answers):
                refused[tag] = members  # part of it: the rest one by one
            elif isinstance(answers[-1], list):
                found[tag] = _partition(answers[-1], sorted(members))
            elif isinstance(answers[-1], ReplyError):
                again[tag] = members  # MOVED, ASK, TRYAGAIN in the middle, LOADING, READONLY
            else:
                found[tag] = PartitionRecords(answers[-1], answers[-1], {})
        waiting = again
        if not waiting:
            break
    for tag, members in (waiting | refused).items():
        questions = _questions(tag, members)
        found[tag] = _partition(cluster.gather([(str(one[1]), one) for one in questions]), sorted(members))
    return found


def _questions(tag: str, members: Iterable[int]) -> list[tuple[Any, ...]]:
    """The cursor first: positions read later are at least as new."""
    questions: list[tuple[Any, ...]] = [("GET", keys.commit(tag)), ("HGETALL", keys.applied(tag))]
    for host in sorted(members):
        questions += [("GET", keys.status(tag, host)), ("PTTL", keys.status(tag, host))]
    return questions


def _partition(answers: Sequence[Any], members: Sequence[int]) -> PartitionRecords:
    commit, applied, *rest = answers
    return PartitionRecords(commit, applied, dict(zip(members, zip(rest[::2], rest[1::2], strict=True), strict=True)))


def read_statuses(cluster: Cluster, layout: Layout, hosts: Sequence[int]) -> dict[int, tuple[Any, Any]]:
    """Status records of hosts that had none a moment ago."""
    if not hosts:
        return {}
    names = [keys.status(layout.tag_of(host), host) for host in hosts]
    replies = cluster.gather([(name, (word, name)) for name in names for word in ("GET", "PTTL")])
    return dict(zip(hosts, zip(replies[::2], replies[1::2], strict=True), strict=True))


def read_dormant(
    cluster: Cluster,
    layout: Layout,
    forgotten: Sequence[tuple[int, int]],
    problems: list[str],
    missing: dict[str, ShardpulseError],
) -> dict[tuple[int, int], Position]:
    """Last positions of sets that were silent for so long that the filter has forgotten them."""
    if not forgotten:
        return {}
    names = [keys.dormant(layout.tag_of(host)) for host, _ in forgotten]
    members = [keys.member(host, number).encode() for host, number in forgotten]
    replies = cluster.gather([(name, ("HGET", name, member)) for name, member in zip(names, members, strict=True)])
    found: dict[tuple[int, int], Position] = {}
    for (host, _), name, member, reply in zip(forgotten, names, members, replies, strict=True):
        if isinstance(reply, bytes):
            found.update(positions_in(name, layout.tag_of(host), (member, reply), layout, problems))
        elif isinstance(failure := failure_of(reply), PermissionRefused):
            missing[layout.tag_of(host)] = failure
    return found


def failure_of(reply: Any) -> ShardpulseError | None:
    """Why a shard did not answer, cannot now, or refuses this user; None for an answer."""
    if isinstance(reply, ReplyError):
        error = error_for(reply)
        return None if isinstance(error, ShardError) else error
    return reply if isinstance(reply, ShardpulseError) else None


def _is_refusal(reply: ReplyError) -> bool:
    return isinstance(error_for(reply), PermissionRefused)


def cursor_in(tag: str, data: Any, problems: list[str]) -> tuple[bytes, int]:
    """The filter's cursor and its count of rejected entries."""
    if data is None:
        return b"", 0
    try:
        found = position.decode_commit(data)
    except FrameError:
        problems.append(f"{keys.commit(tag)}: not a commit record: {shown(data)}")
        return b"", 0
    return found.cursor, found.rejected


def positions_in(key: str, tag: str, rows: Any, layout: Layout, problems: list[str]) -> dict[tuple[int, int], Position]:
    """Positions by (host, resource set): fields and values in turn, of a hash ``key`` of partition ``tag``."""
    found: dict[tuple[int, int], Position] = {}
    for member, data in zip(rows[::2], rows[1::2], strict=True):
        named = keys.parse_member(member)
        where = f"{key} field {shown(member)}"
        if named is None or layout.tag_of(named[0]) != tag:
            problems.append(f"{where}: not a resource set of its partition")
            continue
        try:
            found[named] = position.decode(data)
        except FrameError as error:
            problems.append(f"{where}: {error}")
    return found


def report_in(
    host: int, layout: Layout, data: Any, left: Any, problems: list[str], silent_after: float, now: float
) -> tuple[Source, Status | None]:
    """Status record of a probe, and how far it can be relied on. ``left`` is the remaining lifetime of the record in
    milliseconds, which gives its age by the shard's clock, independent of the host's."""
    where = keys.status(layout.tag_of(host), host)
    nothing = Source(host, "", 0, ABSENT, None)
    if data is None:
        return nothing, None
    if not isinstance(data, bytes):
        problems.append(f"{where}: {data}")
        return nothing._replace(report=DAMAGED), None
    try:
        record = status.decode(data)
    except FrameError as error:
        problems.append(f"{where}: {error}")
        return nothing._replace(report=DAMAGED), None
    expires = isinstance(left, int) and left >= 0
    age = max(0.0, status.EXPIRE_SECONDS - left / 1000.0 if expires else now - record.wall)
    every = record.rest.get("position_interval", 0.0)
    if isinstance(every, int | float) and 0.0 < every < status.EXPIRE_SECONDS:  # this probe reports rarely
        silent_after = max(silent_after, 3.0 * every)
    return Source(host, record.host_name, 0, SILENT if age > silent_after else REPORTED, age), record


def shown(data: object) -> str:
    """Arbitrary bytes for a message: short and without control characters."""
    return repr(data[:60] if isinstance(data, bytes) else data)[:80]
