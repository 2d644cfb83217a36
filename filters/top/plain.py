"""For a pipe: one table whose lines are complete in themselves, or lines that stand alone, tick after tick."""

from __future__ import annotations

from collections.abc import Iterator

from acquisition.model import codes
from acquisition.snapshot.states import STATES
from acquisition.status.shards import ShardHealth
from filters.text.quantities import ABSENT, quantity, seconds
from filters.top.columns import Column, columns_of, figure, has_figures
from filters.top.listing import ENTITIES, HOSTS, METRICS, Listing
from filters.top.look import Look
from filters.top.order import Rows

_WORDS = {HOSTS: "host", ENTITIES: "entity", METRICS: "metric"}


def table(listing: Listing, rows: Rows, look: Look) -> Iterator[str]:
    """Aligned columns; names are never cut. A column that is empty in all rows is left out."""
    columns = [column for column in columns_of(listing) if column.text is not None]
    texts = [[column.title, *(_text(column, listing, at) for at in rows.tolist())] for column in columns]
    shown = [[look.text(text) for text in column] for column in texts if any(column[1:]) or column is texts[0]]
    left = 1 + bool(any(listing.labels[at] for at in rows.tolist()))  # names and labels; the last one is as well
    widths = [max(map(len, column)) for column in shown]
    for line in zip(*shown, strict=True):
        padded = (
            text.ljust(width) if i < left or i == len(shown) - 1 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join(padded).rstrip()


def lines(listing: Listing, rows: Rows, host: str, look: Look) -> Iterator[str]:
    """One line per row, each with what it is about in its first word."""
    for at in rows.tolist():
        yield look.text(_line(listing, at, host))


def shard_line(shard: ShardHealth, look: Look) -> str:
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
