"""For a pipe: one table whose lines are complete in themselves, or lines that stand alone, tick after tick."""

from __future__ import annotations

from collections.abc import Iterator

from acquisition.model import codes
from acquisition.snapshot.states import STATES
from acquisition.status.shards import ShardHealth
from filters.text.quantities import ABSENT, quantity, seconds
from filters.top.cells import ABSENT as NO_VALUE
from filters.top.listing import ENTITIES, HOSTS, METRICS, STATE_CURRENT, Listing
from filters.top.look import Look
from filters.top.order import Rows

_TITLES = {HOSTS: "HOST", ENTITIES: "NAME", METRICS: "METRIC"}
_WORDS = {HOSTS: "host", ENTITIES: "entity", METRICS: "metric"}
_LEFT = 2  #: columns that are aligned left, names and labels; the last one is as well


def table(listing: Listing, rows: Rows, look: Look) -> Iterator[str]:
    """Aligned columns; names are never cut."""
    cells = [_titles(listing), *(_cells(listing, at) for at in rows.tolist())]
    keep = [i for i, column in enumerate(zip(*cells, strict=True)) if any(column[1:]) or i == 0]
    texts = [[look.text(line[i]) for i in keep] for line in cells]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for line in texts:
        padded = (
            text.ljust(width) if i in (0, len(keep) - 1) or keep[i] < _LEFT else text.rjust(width)
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


def _titles(listing: Listing) -> list[str]:
    kind, extra = listing.kind, [plane.figure.upper() for plane in listing.extra]
    cpu, memory = ("SMOOTHED", "") if kind == METRICS else ("CPU", "MEM" if kind == HOSTS else "MEMORY")
    label = "ID" if kind == ENTITIES else ""
    return [_TITLES[kind], label, cpu, "±DEV", "TREND/S", "RAW", *extra, memory, "INV", "AGE", "VALIDITY", "STATE"]


def _cells(listing: Listing, at: int) -> list[str]:
    unit = listing.units[at]
    age, state = seconds(float(listing.age[at])), STATES[listing.state[at]]
    if listing.state[at] != STATE_CURRENT or listing.reasons[at]:
        reason = f"{state}: {listing.reasons[at]}"
        return [
            listing.names[at],
            listing.labels[at],
            NO_VALUE,
            *[ABSENT] * (3 + len(listing.extra)),
            _absent_memory(listing),
            ABSENT,
            age,
            ABSENT,
            reason,
        ]
    figures = [_or(float(listing.mean[at]), unit, NO_VALUE)]
    figures += [_or(float(column[at]), unit, ABSENT) for column in (listing.deviation, listing.trend, listing.last)]
    figures += [_or(value, value_unit, ABSENT) for _, value, value_unit in _extra(listing, at)]
    memory = _or(float(listing.memory[at]), listing.memory_unit, NO_VALUE) if listing.kind != METRICS else ""
    validity = codes.name_of(int(listing.codes[at]))
    return [listing.names[at], listing.labels[at], *figures, memory, str(listing.invalid[at]), age, validity, state]


def _extra(listing: Listing, at: int) -> list[tuple[str, float, str]]:
    """Name, value and unit of the figures of further kernels."""
    unit = listing.units[at]
    return [(plane.figure, float(column[at]), plane.unit_of(unit)) for plane, column in listing.extra.items()]


def _absent_memory(listing: Listing) -> str:
    return "" if listing.kind == METRICS else NO_VALUE


def _or(value: float, unit: str, absent: str) -> str:
    text = quantity(value, unit)
    return absent if text == ABSENT else text


def _line(listing: Listing, at: int, host: str) -> str:
    label, age = listing.labels[at], seconds(float(listing.age[at]))
    who = f"{_WORDS[listing.kind]} {f'{host} ' * bool(host)}{listing.names[at]}{f' {label}' if label else ''}"
    if listing.state[at] != STATE_CURRENT or listing.reasons[at]:
        return f"{STATES[listing.state[at]]} {who} age {age}: {listing.reasons[at]}"
    unit = listing.units[at]
    raw, mean = quantity(float(listing.last[at]), unit), _or(float(listing.mean[at]), unit, NO_VALUE)
    what = "" if listing.kind == METRICS else "cpu "
    memory = ""
    if listing.kind != METRICS:
        memory = f" memory {_or(float(listing.memory[at]), listing.memory_unit, NO_VALUE)}"
    extra = "".join(f" {name} {_or(value, value_unit, NO_VALUE)}" for name, value, value_unit in _extra(listing, at))
    validity = codes.name_of(int(listing.codes[at]))
    figures = f"{what}raw {raw} smoothed {mean}{extra} {validity} age {age}{memory}"
    return f"{who} tick {listing.tick[at]} {figures} invalid {listing.invalid[at]}"
