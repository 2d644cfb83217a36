"""Plain output for pipes: one table with complete lines, or lines per tick."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from acquisition.model import codes
from acquisition.shards.servers.status import HEALTH, ShardStatus
from acquisition.snapshot.values.states import STATES
from filters.text.quantities import ABSENT, digits, quantity, seconds
from filters.top.columns import Column, columns_of, figure, has_figures
from filters.top.contents import Observation
from filters.top.listings.listing import ENTITIES, HOSTS, METRICS, Listing
from filters.top.look import Look
from filters.top.view import Rows

_WORDS = {HOSTS: "host", ENTITIES: "entity", METRICS: "metric"}


def table(listing: Listing, rows: Rows, look: Look) -> Iterator[str]:
    """Aligned columns; names are never cut. Columns empty in all rows are omitted."""
    columns = [column for column in columns_of(listing) if column.text is not None]
    texts = [[column.title, *(_text(column, listing, at) for at in rows.tolist())] for column in columns]
    shown = [[look.text(text) for text in column] for column in texts if any(column[1:]) or column is texts[0]]
    left = 1 + bool(any(listing.labels[at] for at in rows.tolist()))  # names and labels; the last one too
    widths = [max(map(len, column)) for column in shown]
    for line in zip(*shown, strict=True):
        padded = (
            text.ljust(width) if i < left or i == len(shown) - 1 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join(padded).rstrip()


def lines(listing: Listing, rows: Rows, host: str, look: Look) -> Iterator[str]:
    """One line per row; the first word of each is its subject."""
    for at in rows.tolist():
        yield look.text(_line(listing, at, host))


def shard_line(shard: ShardStatus, look: Look) -> str:
    """One shard on one line."""
    if not shard.answering:
        return look.text(f"shard {shard.address} DOWN: {shard.problem}")
    pinned = "" if shard.pinned is None else " pinned" if shard.pinned else " loose"
    memory, limit = quantity(shard.memory_bytes, "bytes"), quantity(shard.memory_limit_bytes, "bytes")
    full = f"{memory} of {limit}" if shard.memory_limit_bytes else memory
    return look.text(f"shard {shard.address} {shard.role} core {shard.cores or ABSENT}{pinned} memory {full}")


def _text(column: Column, listing: Listing, at: int) -> str:
    if column.absent and not has_figures(listing, at):
        return column.absent
    return column.text(listing, at) if column.text is not None else ""


def _line(listing: Listing, at: int, host: str) -> str:
    label, age = listing.labels[at], seconds(float(listing.age[at]))
    who = f"{_WORDS[listing.kind]} {f'{host} ' * bool(host)}{listing.names[at]}{f' {label}' if label else ''}"
    if not has_figures(listing, at):
        return f"{STATES[listing.state[at]]} {who} age {age}: {listing.reasons[at]}"
    unit = listing.units[at]
    raw, mean = quantity(float(listing.last[at]), unit), figure(float(listing.mean[at]), unit)
    what = memory = ""
    if listing.kind != METRICS:
        what, memory = "cpu ", f" memory {figure(float(listing.memory[at]), listing.memory_unit)}"
    planes = ((plane, figure(float(column[at]), plane.unit_of(unit))) for plane, column in listing.extra.items())
    extra = "".join(f" {plane.figure} {text}" for plane, text in planes)
    validity = codes.name_of(int(listing.codes[at]))
    figures = f"{what}raw {raw} smoothed {mean}{extra} {validity} age {age}{memory}"
    return f"{who} tick {listing.tick[at]} {figures} invalid {listing.invalid[at]}"


def document(observation: Observation, listing: Listing, rows: Rows) -> dict[str, Any]:
    """JSON document of ``shardpulse top --json``. Keys are stable: new ones may be added, none changes its meaning.

    ::

        now        seconds since 1970 by the reader's clock
        rows       in the order of --sort: kind (hosts, entities, metrics), name, label, id (not for metrics),
                   unit, mean, deviation, trend, last, extra (of further kernels, by name), validity, memory,
                   memory_unit, invalid, missing, age_seconds, tick, interval, state, reason, note (of a host hot,
                   suspect, saturated or ""; of a VM its destination). The figures are of CPU
                   use (of a host its cpu_busy_ratio), or of the metric. null: no value, or unknown
        hidden     rows omitted by --top or --filter
        shards     as acquisition.shards.servers.status.HEALTH
        errors     what could not be read or seen
        blind      why no host at all can be seen
    """
    return {
        "now": round(observation.snapshot.now, 6),
        "rows": [_row(listing, at) for at in rows.tolist()],
        "hidden": listing.rows - len(rows),
        "shards": [shard.document(HEALTH) for shard in observation.shards],
        "errors": list(observation.snapshot.errors),
        "blind": observation.snapshot.blind,
    }


def _row(listing: Listing, at: int) -> dict[str, Any]:
    figures = {name: digits(getattr(listing, name)[at]) for name in ("mean", "deviation", "trend", "last", "memory")}
    extra = {plane.figure: digits(column[at]) for plane, column in listing.extra.items()}
    known = has_figures(listing, at)
    return {
        "kind": listing.kind,
        "name": listing.names[at],
        "label": listing.labels[at],
        "id": None if listing.kind == METRICS else f"{int(listing.ids[at]):016x}",
        "unit": listing.units[at],
        **figures,
        "extra": extra,
        "memory_unit": listing.memory_unit,
        "validity": codes.name_of(int(listing.codes[at])),
        "invalid": int(listing.invalid[at]) if known else None,
        "missing": int(listing.missing[at]) if known else None,
        "age_seconds": digits(listing.age[at]),
        "tick": int(listing.tick[at]) or None,
        "interval": float(listing.interval[at]) or None,
        "state": STATES[listing.state[at]],
        "reason": listing.reasons[at],
        "note": listing.notes[at] if listing.notes else "",
    }
