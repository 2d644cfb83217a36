"""The status as one JSON document. Keys are stable: new ones may come, none changes its meaning.

::

    verdict        ok, unbalanced, down, stale or empty; ``exit_code`` is that of the command
    now            seconds since 1970, by the clock of the machine that looked
    books          balanced, made, before, applied, invalid, lost, lost_by_reason, pending, missing,
                   unsent, duplicated, dropped, shed, gaps; frames, resent_frames, refused_frames,
                   duplicate_frames; rejected (entries put aside); accounts, unbalanced, unreported,
                   silent (counts of accounts); unreadable (partitions without an answer).
                   made = before + applied + lost + pending in samples. null when nothing could be read
    sets           the same sums per resource set, by name
    hosts          accounts (every count of one host and resource set) of the hosts with trouble, or of the
                   one that was asked for
    freshness      p50, p99, worst: ages in seconds of the newest samples; null when there are none
    shards         as acquisition.status.shards.ShardHealth
    workers        as acquisition.snapshot.workers.Worker, and behind_seconds
    partitions     number, behind_seconds (null: unknown), problem; ``unowned`` lists those without a worker
    findings       kind (unbalanced, down, stale, note), about, text
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from acquisition.snapshot.books import Account, Totals
from acquisition.status import lag
from acquisition.status.health import Health, by_set, lost_by_reason


def document(
    health: Health, set_names: Mapping[int, str], accounts: Iterable[Account], verdict: str, code: int
) -> dict[str, Any]:
    """The document; ``accounts`` are those of ``hosts``."""
    found = health.books
    return {
        "verdict": verdict,
        "exit_code": code,
        "now": round(health.wall, 6),
        "books": None
        if found is None
        else {
            "balanced": found.balanced,
            **_sums(health.totals),
            "rejected": found.rejected,
            "unreadable": found.unreadable,
        },
        "sets": {
            set_names.get(number, f"{number:08x}"): _sums(totals)
            for number, totals in by_set(found.accounts if found is not None else []).items()
        },
        "hosts": [_account(row, set_names) for row in accounts],
        "freshness": None
        if health.freshness is None
        else {k: round(v, 6) for k, v in health.freshness._asdict().items()},
        "shards": [row._asdict() for row in health.shards],
        "workers": [
            {**row._asdict(), "behind_seconds": lag.worst_of(row, health.lags)} for row in health.workers.workers
        ],
        "unowned": health.workers.unowned,
        "partitions": [
            {"number": row.number, "behind_seconds": row.seconds, "problem": row.problem} for row in health.lags
        ],
        "findings": [finding._asdict() for finding in health.findings],
    }


def _sums(totals: Totals) -> dict[str, Any]:
    return {**totals._asdict(), "lost_by_reason": lost_by_reason(totals)}


def _account(row: Account, set_names: Mapping[int, str]) -> dict[str, Any]:
    """Ids in hexadecimal: 64 bits are more than a JSON number holds exactly everywhere (RFC 8259, section 6)."""
    return {
        **row._asdict(),
        "host": f"{row.host:016x}",
        "resource_set": set_names.get(row.resource_set, f"{row.resource_set:08x}"),
        "epoch": str(row.epoch),
        "balanced": row.balanced,
        "difference": row.difference,
        "wall": row.wall if abs(row.wall) < float("inf") else None,
        "interval": row.interval if abs(row.interval) < float("inf") else None,
    }
