"""Status document: ``shardpulse status --json`` and ``/v1/status``.

Keys are stable: new ones may be added, none changes its meaning. A missing number is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from acquisition.errors import EXIT_OK, EXIT_TEMPORARY, EXIT_UNAVAILABLE, EXIT_UNBALANCED
from acquisition.shards.servers.status import HEALTH
from acquisition.snapshot.reconcile.books import Account, Totals
from acquisition.snapshot.visibility.workers import lag_of
from acquisition.status.finding import DOWN, STALE, UNBALANCED
from acquisition.status.health import Health, by_set, lost_by_reason, without_value
from acquisition.wire import archived
from acquisition.wire.archived import Archived

_Values = dict[str, Any]


class Verdict(StrEnum):
    """The condition of the pipeline in a word, the first that fits."""

    UNBALANCED = "unbalanced"
    BLIND = "blind"  #: no host at all can be seen
    DOWN = "down"
    STALE = "stale"
    OK = "ok"


#: Members of an account placed before its counts.
_WHOSE = ("host", "host_name", "resource_set", "report", "report_age", "epoch")
_EXIT_CODES = {
    Verdict.UNBALANCED: EXIT_UNBALANCED,
    Verdict.BLIND: EXIT_TEMPORARY,
    Verdict.DOWN: EXIT_UNAVAILABLE,
    Verdict.STALE: EXIT_UNAVAILABLE,
    Verdict.OK: EXIT_OK,
}


class StatusDocument(Struct, frozen=True):
    """One look at the pipeline."""

    verdict: Verdict
    exit_code: Annotated[int, Meta(description="exit code of the command")]
    now: Annotated[float, Meta(description="seconds since 1970, by the clock of the reporting machine")]
    books: Annotated[
        _Values | None,
        Meta(
            description="balanced, made, before, applied, invalid (of these, samples that failed a check), "
            "without_value (made without one since the probes started, by code; null: not reported), lost, "
            "lost_by_reason, pending, missing, unsent, duplicated, dropped, shed, gaps; frames, resent_frames, "
            "refused_frames, duplicate_frames; rejected (rejected entries); accounts, unbalanced, unreported, "
            "silent (counts of accounts); unreadable (partitions that could not be read, excluded from all "
            "counts). made = before + applied + lost + pending in samples. null when nothing could be read"
        ),
    ]
    blind: Annotated[str, Meta(description="reason that no host is visible; empty if there is a host in the books")]
    sets: Annotated[
        dict[str, _Values] | None, Meta(description="the same counts per resource set, by name; null as for books")
    ]
    hosts: Annotated[
        list[_Values],
        Meta(
            description="accounts (all counts of one host and resource set) of hosts with problems, or of "
            "the requested host; archive: made = archived + gap + pending in samples since the archive has known "
            "the set, unread: not read yet, difference: unaccounted for; null without an archive"
        ),
    ]
    freshness: Annotated[
        dict[str, float] | None,
        Meta(description="p50, p99, worst: ages in seconds of the newest samples; null when there are none"),
    ]
    shards: Annotated[
        list[_Values],
        Meta(description="figures of each shard; null while the shard does not answer"),
    ]
    workers: Annotated[
        list[_Values] | None,
        Meta(
            description="id, name, lease_seconds, renewed (seconds ago), partitions, step, figures, behind_seconds "
            "(null: unknown); null when nothing could be read, as unowned, partitions and readers are then"
        ),
    ]
    unowned: Annotated[list[int] | None, Meta(description="partitions without a worker")]
    partitions: Annotated[list[_Values] | None, Meta(description="number, behind_seconds (null: unknown), problem")]
    readers: Annotated[
        list[_Values] | None,
        Meta(
            description="the archive: name, partitions, behind_seconds, expired, archived, gap, open, processes, "
            "trouble; it counts since it began, made = archived + gap + open"
        ),
    ]
    findings: Annotated[list[_Values], Meta(description="kind (unbalanced, down, stale, note), about, text")]


def verdict_of(found: Health, lossless: bool = False) -> Verdict:
    """The verdict; ``lossless``: with any loss, the books do not balance."""
    kinds = {finding.kind for finding in found.findings}
    if UNBALANCED in kinds or (lossless and found.totals is not None and (found.totals.lost or found.totals.gaps)):
        return Verdict.UNBALANCED
    return condition_of(found)


def condition_of(found: Health) -> Verdict:
    """Verdict on the pipeline alone, without the books."""
    kinds = {finding.kind for finding in found.findings}
    if found.books is not None and not found.books.accounts and not found.unread:
        return Verdict.BLIND
    if DOWN in kinds:
        return Verdict.DOWN
    return Verdict.BLIND if found.blind else Verdict.STALE if STALE in kinds else Verdict.OK


def exit_code(verdict: Verdict) -> int:
    """Exit code of the command."""
    return _EXIT_CODES[verdict]


def in_trouble(found: Health, most: int) -> list[Account]:
    """Unbalanced accounts first, then those with a silent probe, then those with losses."""
    trouble = [row for row in found.accounts if row.faults or not row.known or row.lost or row.gaps]
    return sorted(trouble, key=lambda row: (not row.faults, row.known, -row.lost, row.host))[:most]


def document(
    health: Health, set_names: Mapping[int, str], accounts: Sequence[Account], verdict: Verdict
) -> StatusDocument:
    """The document; ``accounts`` are those of ``hosts``."""
    workers, lags, readers = health.workers, health.lags, health.readers
    return StatusDocument(
        verdict=verdict,
        exit_code=exit_code(verdict),
        now=round(health.wall, 6),
        books=_books(health),
        blind=health.blind,
        sets=None
        if health.books is None
        else {
            name: _sums(sums, without_value(health.reports.values(), name))
            for number, sums in by_set(health.accounts).items()
            for name in (set_names.get(number, f"{number:08x}"),)
        },
        hosts=[
            {**_account(row, set_names), "archive": _archived(health.archived.get((row.host, row.resource_set)), row)}
            for row in accounts
        ],
        freshness=None
        if health.freshness is None
        else {name: round(value, 6) for name, value in health.freshness._asdict().items()},
        shards=[row.document(HEALTH) for row in health.shards],
        workers=None
        if workers is None
        else [{**row._asdict(), "behind_seconds": lag_of(row, lags or ())} for row in workers.workers],
        unowned=None if workers is None else list(workers.unowned),
        partitions=None
        if lags is None
        else [{"number": row.number, "behind_seconds": row.seconds, "problem": row.problem} for row in lags],
        readers=None if readers is None else [row.document() for row in readers],
        findings=[finding._asdict() for finding in health.findings],
    )


def _books(health: Health) -> _Values | None:
    found = health.books
    if found is None or health.totals is None:
        return None
    own = {"rejected": found.rejected, "unreadable": found.unreadable}
    sums = _sums(health.totals, without_value(health.reports.values()))
    return {"balanced": found.balanced, **sums, **own}


def _sums(totals: Totals, without: dict[str, int] | None) -> _Values:
    return {
        "accounts": totals.accounts,
        **structs.asdict(totals),
        "lost_by_reason": lost_by_reason(totals),
        "without_value": without,
    }


def _archived(found: Archived | None, row: Account) -> _Values | None:
    """made = archived + gap + pending, and the part of the last one that is not read yet."""
    if found is None:
        return None
    unread = archived.unread(found, row.epoch, row.made)
    return {
        "made": found.made + unread, "archived": found.archived, "gap": found.gap, "pending": found.pending + unread,
        "unread": unread, "difference": found.difference,
    }  # fmt: skip


def _account(row: Account, set_names: Mapping[int, str]) -> _Values:
    """Ids in hexadecimal: not every reader of JSON holds numbers of 64 bits exactly (RFC 8259, section 6)."""
    return {
        **dict.fromkeys(_WHOSE),
        **structs.asdict(row),
        "host": f"{row.host:016x}",
        "resource_set": set_names.get(row.resource_set, f"{row.resource_set:08x}"),
        "epoch": str(row.epoch),
        "balanced": row.balanced,
        "difference": row.difference,
        "wall": row.wall if abs(row.wall) < float("inf") else None,
        "interval": row.interval if abs(row.interval) < float("inf") else None,
    }
