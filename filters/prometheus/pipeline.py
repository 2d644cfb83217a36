"""Pipeline metric families: books, probes, shards, filter workers.

They come from ``acquisition.status.health``.

An unknown figure has no series: the memory of a shard that does not answer, the wait in a partition
that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from acquisition.model.identity import own_name
from acquisition.shards.servers.status import MASTER, REPLICA, ShardStatus
from acquisition.snapshot.reconcile.balance import SILENT
from acquisition.snapshot.reconcile.books import Account
from acquisition.snapshot.visibility.workers import lag_of
from acquisition.status.finding import DOWN, NOTE, STALE, UNBALANCED
from acquisition.status.health import Health, without_value
from acquisition.status.part_findings import of_risks
from filters.prometheus import syntax
from filters.prometheus.rows import SET
from filters.prometheus.syntax import COUNTER, GAUGE, Family, Filled, Series

#: A family, and its figure in one row (an account, a shard …).
Table = tuple[tuple[Family, Callable[[Any], float | int | None]], ...]
_Line = tuple[str, str, str, str, Callable[[Any], float | int | None]]


def _table(prefix: str, labels: tuple[str, ...], lines: tuple[_Line, ...]) -> Table:
    return tuple(
        (Family(f"shardpulse_{prefix}_{name}", kind, text, unit, labels), figure)
        for name, kind, unit, text, figure in lines
    )


def _answering(figure: Callable[[ShardStatus], float | int | None]) -> Callable[[ShardStatus], float | int | None]:
    return lambda row: figure(row) if row.answering else None


def _replica(figure: Callable[[ShardStatus], float | int | None]) -> Callable[[ShardStatus], float | int | None]:
    return lambda row: figure(row) if row.answering and row.role == REPLICA else None


BOOKS = _table("books", SET, (
    ("made_samples", COUNTER, "", "Samples that the probe made in this epoch, as far as is known",
     lambda row: row.made),
    ("pending_samples", GAUGE, "", "Samples made but not applied yet: in a ring or a stream",
     lambda row: row.pending if row.known else None),
    ("lost_samples", GAUGE, "", "Samples of this epoch that were dropped", lambda row: row.lost),
    ("difference_samples", GAUGE, "", "made - before - applied - lost - pending: 0, or the books do not balance",
     lambda row: row.difference),
    ("faults", GAUGE, "", "Contradictions between independent counts; 0 when the books balance",
     lambda row: len(row.faults)),
))  # fmt: skip
PROBE = _table("probe", SET, (
    ("silent", GAUGE, "", "1: the probe has not written its status for longer than down_after_seconds",
     lambda row: int(row.report == SILENT)),
    ("known", GAUGE, "", "1: the probe's status is current, or it was stopped; 0: later samples are unknown",
     lambda row: int(row.known)),
    ("report_age_seconds", GAUGE, "seconds", "Time since the probe wrote its status", lambda row: row.report_age),
    ("resent_frames", COUNTER, "", "Frames resent since the start of the probe", lambda row: row.resent_frames),
))  # fmt: skip
SHARD = _table("shard", ("shard",), (
    ("up", GAUGE, "", "1: the shard answers", lambda row: int(row.there)),
    ("master", GAUGE, "", "1: the shard is a master; 0: it is a replica",
     lambda row: int(row.role == MASTER) if row.role else None),
    ("memory_bytes", GAUGE, "bytes", "Memory in use", _answering(lambda row: row.memory_bytes)),
    ("memory_limit_bytes", GAUGE, "bytes", "maxmemory: a full shard refuses frames, and the probes keep them",
     _answering(lambda row: row.memory_limit_bytes or None)),
    ("pinned", GAUGE, "", "1: all threads run on their own core; absent for a shard of another machine",
     _answering(lambda row: row.pinned)),
    ("slots", GAUGE, "", "Hash slots served", _answering(lambda row: row.slots)),
    ("moving_slots", GAUGE, "", "Hash slots being moved to or from another shard",
     _answering(lambda row: row.slots_moving)),
    ("clients", GAUGE, "", "Connections", _answering(lambda row: row.clients)),
    ("commands_per_second", GAUGE, "", "Commands executed", _answering(lambda row: row.commands_per_second)),
    ("uptime_seconds", GAUGE, "seconds", "Time since the shard started", _answering(lambda row: row.uptime_seconds)),
    ("replica_in_sync", GAUGE, "", "1: the replica has its master's data and a link to it",
     _replica(lambda row: int(row.in_sync))),
    ("replica_behind_bytes", GAUGE, "bytes", "Bytes of its master's writes that the replica has not received yet",
     _replica(lambda row: row.lag_bytes)),
))  # fmt: skip
RISK = _table("shard", ("shard",), (
    ("at_risk", GAUGE, "", "1: no replica could take over from the shard, or it would fail together with its "
        "master, while other shards have replicas", lambda pair: int(pair[1]) if pair[0].answering else None),
))  # fmt: skip
PARTITION = _table("partition", ("partition",), (
    ("waiting_seconds", GAUGE, "seconds", "Age of the oldest entry waiting for a filter worker; 0: none",
     lambda row: row.seconds),
))  # fmt: skip
WORKER = _table("worker", ("worker", "id"), (
    ("partitions", GAUGE, "", "Partitions of the filter worker", lambda pair: len(pair[0].partitions)),
    ("behind_seconds", GAUGE, "seconds", "The longest wait in a partition of the worker", lambda pair: pair[1]),
    ("renewed_seconds", GAUGE, "seconds", "Time since the worker renewed a lease", lambda pair: pair[0].renewed),
))  # fmt: skip
READER = _table("reader", ("reader",), (
    ("behind_seconds", GAUGE, "seconds", "Age of the newest entry read by a registered reader (the archive)",
     lambda row: row.behind_seconds),
    ("partitions", GAUGE, "", "Partitions in which it is registered", lambda row: row.partitions),
    ("expired_partitions", GAUGE, "", "Partitions in which its registration has expired",
     lambda row: row.expired),
    ("made_samples", GAUGE, "", "Samples known to it since its start: archived, gap and open",
     lambda row: row.made),
    ("archived_samples", GAUGE, "", "Samples that are durable", lambda row: row.archived),
    ("gap_samples", GAUGE, "", "Samples permanently missing from it", lambda row: row.gap),
    ("open_samples", GAUGE, "", "Samples of minutes that are still open", lambda row: row.open),
))  # fmt: skip
FILTER = _table("filter", (), (
    ("workers", GAUGE, "", "Filter workers that are alive",
     lambda health: None if health.workers is None else len(health.workers.workers)),
    ("unowned_partitions", GAUGE, "", "Partitions without a worker",
     lambda health: None if health.workers is None else len(health.workers.unowned)),
    ("waiting_seconds", GAUGE, "seconds", "Age of the oldest waiting entry of all partitions",
     lambda health: max((row.seconds for row in health.lags or () if row.seconds is not None), default=None)),
))  # fmt: skip
LEDGER = _table("books", (), (
    ("balanced", GAUGE, "", "1: all books could be read, and all counts agree; absent: no books could be read",
     lambda health: None if health.books is None else int(health.books.balanced)),
    ("unreadable_partitions", GAUGE, "", "Partitions that could not be read",
     lambda health: None if health.books is None else len(health.books.unreadable)),
    ("damaged_records", GAUGE, "", "Invalid records in the shards",
     lambda health: None if health.books is None else len(health.books.problems)),
    ("rejected_entries", COUNTER, "", "Entries of raw streams that were rejected",
     lambda health: None if health.books is None else health.books.rejected),
))  # fmt: skip
WITHOUT_VALUE = Family(
    "shardpulse_probe_without_value_samples", COUNTER,
    "Samples without a value since the start of the probe, by code: no check failed", labels=(*SET, "validity"),
)  # fmt: skip
FINDINGS = Family(
    "shardpulse_findings", GAUGE, "Findings of `shardpulse status`, by kind: down and stale require action, "
        "note does not",
    labels=("kind",),
)  # fmt: skip
_KINDS = (UNBALANCED, DOWN, STALE, NOTE)


def families(health: Health, hosts: Mapping[int, str], sets: Mapping[int, str]) -> list[Filled]:
    """All families; ``hosts`` and ``sets`` are labels by number, as the snapshot has them."""
    books = [(_account_labels(row, hosts, sets), row) for row in health.accounts]
    shards = [(syntax.labels(("shard",), (row.address,)), row) for row in health.shards]
    grave = {risk.about for risk in of_risks(health.shards) if risk.kind == STALE}
    risks = [(text, (row, f"shard {row.address}" in grave)) for text, row in shards]
    partitions = [(f'partition="{row.number}"', row) for row in health.lags or ()]
    workers = [
        (syntax.labels(("worker", "id"), (row.name, row.id)), (row, lag_of(row, health.lags or ())))
        for row in (health.workers.workers if health.workers is not None else ())
    ]
    found = [*_filled(FILTER, [("", health)]), *_filled(LEDGER, [("", health)])]
    readers = [(syntax.labels(("reader",), (row.name,)), row) for row in health.readers or ()]
    for table, rows in (
        (BOOKS, books), (PROBE, books), (SHARD, shards), (RISK, risks), (PARTITION, partitions), (WORKER, workers),
        (READER, readers),
    ):  # fmt: skip
        found += _filled(table, rows)
    found.append((WITHOUT_VALUE, [series for text, row in books for series in _without_value(text, row, health, sets)]))
    kinds = [finding.kind for finding in health.findings]
    found.append((FINDINGS, [(f'kind="{kind}"', kinds.count(kind)) for kind in _KINDS]))
    return found


def _without_value(text: str, row: Account, health: Health, sets: Mapping[int, str]) -> list[Series]:
    report, name = health.reports.get(row.host), sets.get(row.resource_set)
    counts = without_value([report], name) if report is not None and name else None
    return [(f'{text},validity="{code}"', count) for code, count in (counts or {}).items()]


def _filled(table: Table, rows: list[tuple[str, Any]]) -> list[Filled]:
    return [(family, [(text, figure(row)) for text, row in rows]) for family, figure in table]


def _account_labels(row: Account, hosts: Mapping[int, str], sets: Mapping[int, str]) -> str:
    host = hosts.get(row.host, own_name(row.host_name, row.host))
    return syntax.labels(SET, (host, sets.get(row.resource_set, f"{row.resource_set:08x}")))
