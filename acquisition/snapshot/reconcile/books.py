"""The books: what all probes made against what became of it, read from the shards.

Of each partition everything is read in one transaction: the filter's cursor, its applied
positions, the status records of the probes. A partition that moves between two shards or fails
over meanwhile is read again, so none of its parts is older than another one. Only while the
keys of a partition lie on two shards they are read one by one, cursor first; the balance
holds then as well (``acquisition.snapshot.reconcile.balance``).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from acquisition.errors import PermissionRefused, ShardError, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address, ReplyError, error_for
from acquisition.snapshot.reconcile.balance import ABSENT, SILENT, Account, Source, balance
from acquisition.snapshot.reconcile.book_records import cursor_in, positions_in, report_in, shown
from acquisition.snapshot.values.host_names import names_of
from acquisition.wire import keys, status
from acquisition.wire.layout import Layout
from acquisition.wire.position import Position
from acquisition.wire.status import Status

__all__ = ["SILENT_SECONDS", "Account", "Books", "Totals", "name_of", "read", "read_books", "read_status", "totals"]

#: A probe that has not written its account for so long is silent (it writes every two seconds).
SILENT_SECONDS = 10.0
_ATTEMPTS = 5
_PAUSE = 0.02
_STATUS = re.compile(rb"status:\{([^{}]+)\}:([0-9a-f]{16})")


class Books(NamedTuple):
    """``problems`` are records in the shards that are none, each with its key: the accounts that they
    belong to cannot be proven. ``unreadable`` are partitions that no shard answered for, by tag:
    books with a part missing must not look balanced; ``refusals`` are those of the reasons that are a shard's
    refusal to let this user read. ``rejected`` counts rejected entries.

    Of a set that was silent for so long that the filter has forgotten it (``[filter] expire_seconds``), the
    account stays as it was until its probe's own expires as well."""

    accounts: list[Account]
    cursors: dict[str, bytes]
    rejected: int
    problems: list[str]
    unreadable: dict[str, str]
    statuses: dict[int, Status]
    refusals: frozenset[str] = frozenset()

    @property
    def balanced(self) -> bool:
        """Every part could be read, and all counts agree."""
        return not (self.problems or self.unreadable) and all(account.balanced for account in self.accounts)

    @property
    def faults(self) -> list[str]:
        """Everything that keeps the books from balancing, in words."""
        named = [f"{name_of(row)}: {fault}" for row in self.accounts for fault in row.faults]
        return named + self.problems + [f"partition {tag}: {reason}" for tag, reason in self.unreadable.items()]


class Totals(NamedTuple):
    """Sums over accounts, in samples unless it says frames. ``unbalanced``, ``unreported`` and ``silent`` count
    accounts: what the last two made since their last report is unknown."""

    accounts: int
    made: int
    before: int
    applied: int
    invalid: int
    lost: int
    pending: int
    missing: int
    unsent: int
    duplicated: int
    dropped: int
    shed: int
    gaps: int
    frames: int
    resent_frames: int
    refused_frames: int
    duplicate_frames: int
    unbalanced: int
    unreported: int
    silent: int


class _Partition(NamedTuple):
    """What one transaction found; replies are checked later. ``statuses`` are pairs of record and PTTL."""

    commit: Any
    applied: Any
    statuses: dict[int, tuple[Any, Any]]


def read(
    cluster: Cluster, layout: Layout, silent_after: float = SILENT_SECONDS, wall: Callable[[], float] = time.time
) -> Books:
    """The books of all hosts that have a status record or an applied position.

    Shards that do not answer, or refuse, and records that are none are named in the answer. Raises ShardError when no
    partition can be read, PermissionRefused where any shard refuses then.
    """
    problems: list[str] = []
    missing: dict[str, ShardpulseError] = {}
    hosts = _hosts_with_status(cluster, layout, problems, missing)
    found = _read_partitions(cluster, hosts)
    cursors: dict[str, bytes] = {}
    positions: dict[tuple[int, int], Position] = {}
    statuses: dict[int, tuple[Any, Any]] = {}
    rejected = 0
    for tag, partition in found.items():
        try:
            cursors[tag], aside = cursor_in(tag, _checked(partition.commit), problems)
            positions.update(positions_in(keys.applied(tag), tag, _checked(partition.applied), layout, problems))
            statuses.update(partition.statuses)
            rejected += aside
        except ShardpulseError as error:
            missing[tag] = error
    if len(missing) == len(found):
        raise _whole(missing.values())
    statuses |= _statuses(cluster, layout, sorted({host for host, _ in positions} - set(statuses)))
    for host, pair in list(statuses.items()):
        if failure := next(filter(None, map(_failure, pair)), None):
            missing[layout.tag_of(host)] = failure
            del statuses[host]
    reports = {
        host: report_in(host, layout, *pair, problems, silent_after, wall()) for host, pair in sorted(statuses.items())
    }
    named = names_of({host: record.host_name for host, (_, record) in reports.items() if record is not None})
    reports = {
        host: (source._replace(host_name=named.get(host, "")), record) for host, (source, record) in reports.items()
    }
    forgotten = [
        (host, number)
        for host, (_, record) in reports.items()
        for number in (record.sets if record is not None else ())
        if (host, number) not in positions and layout.tag_of(host) in cursors
    ]
    positions.update(_dormant(cluster, layout, forgotten, problems, missing))
    accounts = _accounts(layout, positions, reports, cursors)
    records = {host: record for host, (_, record) in reports.items() if record is not None}
    refusals = frozenset(str(error) for error in missing.values() if isinstance(error, PermissionRefused))
    unreadable = {tag: str(error) for tag, error in missing.items()}
    return Books(accounts, cursors, rejected, problems, unreadable, records, refusals)


def read_books(cluster: Cluster, layout: Layout) -> list[Account]:
    """The accounts alone. Raises ShardError or TemporaryError when a shard does not answer, or
    answers with something unexpected, PermissionRefused when one refuses; single invalid records count
    as absent."""
    books = read(cluster, layout)
    for reason in (*books.refusals, *books.unreadable.values()):
        raise (PermissionRefused if books.refusals else ShardError)(reason)
    return books.accounts


def read_status(cluster: Cluster, layout: Layout, host: int) -> Status | None:
    """The status record of one host, or None. Raises FrameError when it is damaged."""
    key = keys.status(layout.tag_of(host), host)
    data = cluster.call(key, "GET", key)
    return None if data is None else status.decode(data)


def totals(accounts: Iterable[Account]) -> Totals:
    """The sums of many accounts."""
    rows = list(accounts)
    summed = {name: sum(getattr(row, name) for row in rows) for name in Totals._fields if hasattr(Account, name)}
    return Totals(
        **summed,
        accounts=len(rows),
        unbalanced=sum(not row.balanced for row in rows),
        unreported=sum(not row.known and row.report != SILENT for row in rows),
        silent=sum(row.report == SILENT for row in rows),
    )


def name_of(account: Account) -> str:
    """Host and resource set of an account for people: ids in hexadecimal where names are unknown."""
    return f"host {account.host_name or format(account.host, '016x')} set {account.resource_set:08x}"


def _accounts(
    layout: Layout,
    positions: Mapping[tuple[int, int], Position],
    reports: Mapping[int, tuple[Source, Status | None]],
    cursors: Mapping[str, bytes],
) -> list[Account]:
    members = {(host, number) for host, (_, record) in reports.items() if record is not None for number in record.sets}
    accounts = []
    for host, number in sorted(members | set(positions)):
        source, record = reports.get(host, (Source(host, "", 0, ABSENT, None), None))
        sent = record.sets.get(number) if record is not None else None
        if record is not None and sent is None:  # a resource set that this probe does not watch any more
            source = source._replace(report=ABSENT)
        tag = layout.tag_of(host)
        if tag in cursors:
            source = source._replace(resource_set=number)
            accounts.append(balance(source, sent, positions.get((host, number)), cursors[tag]))
    return accounts


def _hosts_with_status(
    cluster: Cluster, layout: Layout, problems: list[str], missing: dict[str, ShardpulseError]
) -> dict[str, set[int]]:
    """The hosts that have a status record, applied or not, by tag: SCAN on every shard that owns slots.

    A shard that does not answer is passed over: its partitions turn out to be unreadable later. Of one that refuses
    only that they turn out to be ``missing`` here.
    """
    hosts: dict[str, set[int]] = {tag: set() for tag in layout.tags}
    names, refusals = _status_keys(cluster)
    owners = {tag: cluster.known_owner(keys.commit(tag)) for tag in layout.tags}
    missing.update((tag, refusals[owner]) for tag, owner in owners.items() if owner in refusals)
    for key in sorted(names):
        match = _STATUS.fullmatch(key)
        host = int(match[2], 16) if match is not None else 0
        if match is None or layout.tag_of(host).encode() != match[1]:
            problems.append(f"the key {shown(key)} names no host of its partition")
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


def _read_partitions(cluster: Cluster, hosts: Mapping[str, set[int]]) -> dict[str, _Partition]:
    """Each partition in one transaction; those that are on the move again, and one by one in the end."""
    found: dict[str, _Partition] = {}
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
                refused[tag] = members  # something of it: the rest one by one
            elif isinstance(answers[-1], list):
                found[tag] = _partition(answers[-1], sorted(members))
            elif isinstance(answers[-1], ReplyError):
                again[tag] = members  # MOVED, ASK, TRYAGAIN in the middle, LOADING, READONLY
            else:
                found[tag] = _Partition(answers[-1], answers[-1], {})
        waiting = again
        if not waiting:
            break
    for tag, members in (waiting | refused).items():
        questions = _questions(tag, members)
        found[tag] = _partition(cluster.gather([(str(one[1]), one) for one in questions]), sorted(members))
    return found


def _questions(tag: str, members: Iterable[int]) -> list[tuple[Any, ...]]:
    """The cursor first: what a later reading finds applied is at least as new."""
    questions: list[tuple[Any, ...]] = [("GET", keys.commit(tag)), ("HGETALL", keys.applied(tag))]
    for host in sorted(members):
        questions += [("GET", keys.status(tag, host)), ("PTTL", keys.status(tag, host))]
    return questions


def _partition(answers: Sequence[Any], members: Sequence[int]) -> _Partition:
    commit, applied, *rest = answers
    return _Partition(commit, applied, dict(zip(members, zip(rest[::2], rest[1::2], strict=True), strict=True)))


def _statuses(cluster: Cluster, layout: Layout, hosts: Sequence[int]) -> dict[int, tuple[Any, Any]]:
    """The status records of hosts that had none a moment ago."""
    if not hosts:
        return {}
    names = [keys.status(layout.tag_of(host), host) for host in hosts]
    replies = cluster.gather([(name, (word, name)) for name in names for word in ("GET", "PTTL")])
    return dict(zip(hosts, zip(replies[::2], replies[1::2], strict=True), strict=True))


def _dormant(
    cluster: Cluster,
    layout: Layout,
    forgotten: Sequence[tuple[int, int]],
    problems: list[str],
    missing: dict[str, ShardpulseError],
) -> dict[tuple[int, int], Position]:
    """Where sets stood that were silent for so long that the filter has forgotten them."""
    if not forgotten:
        return {}
    names = [keys.dormant(layout.tag_of(host)) for host, _ in forgotten]
    members = [keys.member(host, number).encode() for host, number in forgotten]
    replies = cluster.gather([(name, ("HGET", name, member)) for name, member in zip(names, members, strict=True)])
    found: dict[tuple[int, int], Position] = {}
    for (host, _), name, member, reply in zip(forgotten, names, members, replies, strict=True):
        if isinstance(reply, bytes):
            found.update(positions_in(name, layout.tag_of(host), (member, reply), layout, problems))
        elif isinstance(failure := _failure(reply), PermissionRefused):
            missing[layout.tag_of(host)] = failure
    return found


def _checked(reply: Any) -> Any:
    if isinstance(reply, ReplyError):
        raise error_for(reply)
    if isinstance(reply, Exception):
        raise reply
    return reply


def _failure(reply: Any) -> ShardpulseError | None:
    """Why a shard did not answer, cannot now, or does not to this user; None for what it answered."""
    if isinstance(reply, ReplyError):
        error = error_for(reply)
        return None if isinstance(error, ShardError) else error
    return reply if isinstance(reply, ShardpulseError) else None


def _whole(reasons: Iterable[ShardpulseError]) -> ShardpulseError:
    """Why nothing can be read."""
    told = {str(reason): reason for reason in reasons}
    refused = any(isinstance(reason, PermissionRefused) for reason in told.values())
    return (PermissionRefused if refused else ShardError)("; ".join(told))


def _is_refusal(reply: ReplyError) -> bool:
    return isinstance(error_for(reply), PermissionRefused)
