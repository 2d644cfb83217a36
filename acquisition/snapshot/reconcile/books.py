"""Books: samples made by all probes against their fate, for all hosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from acquisition.errors import PermissionRefused, ShardError, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import raise_for
from acquisition.snapshot.reconcile.balance import ABSENT, SILENT, Account, Counts, Source, balance
from acquisition.snapshot.reconcile.book_records import (
    cursor_in,
    failure_of,
    hosts_with_status,
    positions_in,
    read_dormant,
    read_partitions,
    read_statuses,
    report_in,
)
from acquisition.snapshot.values.names import names_of
from acquisition.wire import keys, status
from acquisition.wire.layout import Layout
from acquisition.wire.position import Position
from acquisition.wire.status import Status

__all__ = ["SILENT_SECONDS", "Account", "Books", "Totals", "name_of", "read", "read_books", "read_status", "totals"]

#: A probe that has not written its account for this long is silent (it writes every two seconds).
SILENT_SECONDS = 10.0


class Books(NamedTuple):
    """``problems`` are invalid records in the shards, each with its key: the accounts they
    belong to cannot be proven. ``unreadable`` are partitions without an answer from a shard, by tag:
    books with a part missing must not look balanced; ``refusals`` are those of the reasons by which a
    shard refuses this user. ``rejected`` counts rejected entries.

    The account of a set that was silent for so long that the filter has forgotten it (``[filter] expire_seconds``)
    stays unchanged until its probe's own expires as well."""

    accounts: list[Account]
    cursors: dict[str, bytes]
    rejected: int
    problems: list[str]
    unreadable: dict[str, str]
    statuses: dict[int, Status]
    refusals: frozenset[str] = frozenset()

    @property
    def balanced(self) -> bool:
        """Whether every part could be read, and all counts agree."""
        return not (self.problems or self.unreadable) and all(account.balanced for account in self.accounts)

    @property
    def faults(self) -> list[str]:
        """Everything that keeps the books from balancing, as text."""
        named = [f"{name_of(row)}: {fault}" for row in self.accounts for fault in row.faults]
        return named + self.problems + [f"partition {tag}: {reason}" for tag, reason in self.unreadable.items()]


class Totals(Counts, frozen=True, kw_only=True):
    """Sums over ``accounts``. ``unbalanced``, ``unreported`` and ``silent`` count some of these: samples the last two
    made since their last report are unknown."""

    accounts: int
    duplicated: int
    unbalanced: int
    unreported: int
    silent: int


def read(
    cluster: Cluster, layout: Layout, silent_after: float = SILENT_SECONDS, wall: Callable[[], float] = time.time
) -> Books:
    """Books of all hosts with a status record or an applied position.

    Shards that do not answer or refuse, and invalid records, are named in the result. Raises ShardError if no
    partition can be read, PermissionRefused if any shard refuses then.
    """
    problems: list[str] = []
    missing: dict[str, ShardpulseError] = {}
    hosts = hosts_with_status(cluster, layout, problems, missing)
    found = read_partitions(cluster, hosts)
    cursors: dict[str, bytes] = {}
    positions: dict[tuple[int, int], Position] = {}
    statuses: dict[int, tuple[Any, Any]] = {}
    rejected = 0
    for tag, partition in found.items():
        try:
            cursors[tag], aside = cursor_in(tag, raise_for(partition.commit), problems)
            positions.update(positions_in(keys.applied(tag), tag, raise_for(partition.applied), layout, problems))
            statuses.update(partition.statuses)
            rejected += aside
        except ShardpulseError as error:
            missing[tag] = error
    if len(missing) == len(found):
        raise _whole(missing.values())
    statuses |= read_statuses(cluster, layout, sorted({host for host, _ in positions} - set(statuses)))
    for host, pair in list(statuses.items()):
        if failure := next(filter(None, map(failure_of, pair)), None):
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
    positions.update(read_dormant(cluster, layout, forgotten, problems, missing))
    accounts = _accounts(layout, positions, reports, cursors)
    records = {host: record for host, (_, record) in reports.items() if record is not None}
    refusals = frozenset(str(error) for error in missing.values() if isinstance(error, PermissionRefused))
    unreadable = {tag: str(error) for tag, error in missing.items()}
    return Books(accounts, cursors, rejected, problems, unreadable, records, refusals)


def read_books(cluster: Cluster, layout: Layout) -> list[Account]:
    """The accounts alone. Raises ShardError or TemporaryError if a shard does not answer, or
    sends an unexpected answer, PermissionRefused if one refuses; single invalid records count
    as absent."""
    books = read(cluster, layout)
    for reason in (*books.refusals, *books.unreadable.values()):
        raise (PermissionRefused if books.refusals else ShardError)(reason)
    return books.accounts


def read_status(cluster: Cluster, layout: Layout, host: int) -> Status | None:
    """Status record of one host, or None. Raises FrameError if it is damaged."""
    key = keys.status(layout.tag_of(host), host)
    data = cluster.call(key, "GET", key)
    return None if data is None else status.decode(data)


def totals(accounts: Iterable[Account]) -> Totals:
    """The sums of many accounts."""
    rows = list(accounts)
    summed = {name: sum(getattr(row, name) for row in rows) for name in (*Counts.__struct_fields__, "duplicated")}
    return Totals(
        **summed,
        accounts=len(rows),
        unbalanced=sum(not row.balanced for row in rows),
        unreported=sum(not row.known and row.report != SILENT for row in rows),
        silent=sum(row.report == SILENT for row in rows),
    )


def name_of(account: Account) -> str:
    """Readable host and resource set of an account: ids in hexadecimal if names are unknown."""
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
        if record is not None and sent is None:  # a resource set no longer watched by this probe
            source = source._replace(report=ABSENT)
        tag = layout.tag_of(host)
        if tag in cursors:
            source = source._replace(resource_set=number)
            accounts.append(balance(source, sent, positions.get((host, number)), cursors[tag]))
    return accounts


def _whole(reasons: Iterable[ShardpulseError]) -> ShardpulseError:
    """Why nothing can be read."""
    texts = {str(reason): reason for reason in reasons}
    refused = any(isinstance(reason, PermissionRefused) for reason in texts.values())
    return (PermissionRefused if refused else ShardError)("; ".join(texts))
