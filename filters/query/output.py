"""Output of ``shardpulse query``: tables for terminals, lines, JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block, finite
from acquisition.snapshot.values.rows import Row
from acquisition.terminal import printable
from acquisition.wire.records.planes import Plane
from filters.documents.encoding import encode
from filters.query.request import Section
from filters.text.quantities import ABSENT, digits, exact, quantity, seconds
from filters.text.states import state_style, validity

_WIDE = 110
_GAP = 2
_INDENT = "  "
_COLUMNS = (
    "HOST", "SET", "ENTITY", "STABLE", "METRIC", "MEAN", "DEVIATION", "TREND", "LAST", "UNIT",
    "VALIDITY", "AGE_S", "STALE_S", "TICK", "STATE",
)  # fmt: skip
_FIGURES = ("mean", "deviation", "trend", "last")
_FIGURES_END = _COLUMNS.index("UNIT")  #: insertion point of the columns of further kernels
_RIGHT = frozenset(("MEAN", "DEVIATION", "TREND", "LAST", "AGE_S", "STALE_S", "TICK"))


def document(snapshot: Snapshot, sections: Sequence[Section]) -> bytes:
    """One JSON document (RFC 8259; absent numbers are null), without a line break."""
    body = {
        "reading": snapshot.reading,
        "now": round(snapshot.now, 6),
        "errors": snapshot.errors,
        "blind": snapshot.blind,
        "damaged": snapshot.damaged,
        "sets": [_set(section) for section in sections],
        "rows": [_row(row) for section in sections for row in section.rows],
    }
    return encode(body)


def lines(sections: Sequence[Section]) -> Iterator[str]:
    """Aligned columns, every line self-contained, numbers in base units."""
    extra = list(dict.fromkeys(name for section in sections for row in section.rows for name in row.extra))
    titles = [*_COLUMNS[:_FIGURES_END], *map(str.upper, extra), *_COLUMNS[_FIGURES_END:]]
    cells = [titles] + [_cells(row, extra) for section in sections for row in section.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [name in _RIGHT or name.lower() in extra for name in titles]
    for row in cells:
        padded = (cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True))
        yield "  ".join(padded).rstrip()


def tables(sections: Sequence[Section], width: int) -> RenderableType:
    """One table per host and resource set, below a line with the values common to its rows."""
    parts: list[RenderableType] = []
    for section in sections:
        parts += [heading(section.block), _table(section, width)]
        if section.hidden or section.hidden_metrics:
            parts.append(Text(_hidden(section), style="dim"))
        parts.append(Text())
    return Group(*parts[:-1])


def _hidden(section: Section) -> str:
    """Note on hidden rows and metrics, and how to show them."""
    left_out = [f"{section.hidden} more entities: --top 0"] if section.hidden else []
    if section.hidden_metrics:
        left_out.append(f"{section.hidden_metrics} more metrics: --metric '*'")
    return f"{_INDENT}… {'; '.join(left_out)}"


def heading(block: Block) -> Text:
    """Host, resource set, tick, age, interval, state, and the reason if it is not current."""
    text = Text.assemble(
        (printable(block.host), "bold"), " · ", (printable(block.resource_set), "bold"), f" · tick {block.tick}",
        f" · age {seconds(finite(block.age_seconds))} · every {block.interval:g} s · ",
        (block.state, state_style(block.state)),
    )  # fmt: skip
    if block.reason:
        text.append(f": {printable(block.reason)}", "yellow")
    quality = block.quality
    if quality.sheds:
        text.append(" · its probe drops frames", "yellow")
    if quality.lost_seconds is not None:
        text.append(f" · samples lost {seconds(quality.lost_seconds)} ago", "yellow")
    return text


def _table(section: Section, width: int) -> Table:
    """Figures and validity are never cut; names get the remaining width."""
    own = [name for name in _FIGURES if name != "trend" or width >= _WIDE]
    extra = section.block.extra_planes
    titles = [name.upper() for name in (*own, *(plane.figure for plane in extra))]
    figures = [[*(quantity(getattr(row, name), row.unit) for name in own), *_extra(row, extra)] for row in section.rows]
    marks = [validity(row) for row in section.rows]
    labels = _labels(section.rows)
    taken = [max(map(len, column)) for column in zip(titles, *figures, strict=True)]
    taken.append(max(len("validity"), *map(len, marks)))
    room = width - sum(taken) - _GAP * (len(taken) + 1)
    longest = max(len("METRIC"), *(len(row.metric) for row in section.rows))
    entity = min(max(len("entity"), *map(len, labels)) + len(_INDENT), max(16, room // 3, room - longest))
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(f"{_INDENT}ENTITY", width=entity, no_wrap=True)
    table.add_column("METRIC", max_width=max(8, room - entity), no_wrap=True)
    for title, size in zip(titles, taken, strict=False):
        table.add_column(title, justify="right", min_width=size, no_wrap=True)
    table.add_column("VALIDITY", min_width=taken[-1], no_wrap=True)
    for row, label, numbers, mark in zip(section.rows, labels, figures, marks, strict=True):
        table.add_row(Text(_INDENT + label), Text(printable(row.metric)), *numbers, mark)
    return table


def _extra(row: Row, planes: Sequence[Plane]) -> list[str]:
    return [quantity(row.extra.get(plane.figure), plane.unit_of(row.unit)) for plane in planes]


def _labels(rows: Sequence[Row]) -> list[str]:
    """The entity in the first of its rows, with the pid to distinguish processes of the same name, and a note on a VM
    that several hosts report."""
    labels, before = [], ""
    for row in rows:
        pid = row.stable.rpartition(":")[2] if row.kind == "process" else ""
        mark = f"({row.placement})" if row.placement else ""
        told = " ".join(part for part in (mark, pid, row.entity) if part)
        labels.append("" if row.id and row.id == before else printable(told))
        before = row.id
    return labels


def _cells(row: Row, extra: Sequence[str]) -> list[str]:
    age = ABSENT if row.age_seconds is None else f"{row.age_seconds:.3f}"
    stale = ABSENT if row.stale_seconds is None else f"{row.stale_seconds:.3f}"
    return [
        printable(row.host), printable(row.resource_set), printable(row.entity), printable(row.stable) or ABSENT,
        printable(row.metric), exact(row.mean), exact(row.deviation), exact(row.trend), exact(row.last),
        *(exact(row.extra.get(name)) for name in extra),
        printable(row.unit) or ABSENT, row.validity, age, stale, str(row.tick),
        f"{row.state},{row.placement}" if row.placement else row.state,
    ]  # fmt: skip


def _set(section: Section) -> dict[str, Any]:
    block = section.block
    return {
        "host": block.host,
        "resource_set": block.resource_set,
        "tick": block.tick,
        "interval": block.interval,
        "wall": round(block.wall, 6),
        "age_seconds": digits(block.age_seconds),
        "state": block.state,
        "reason": block.reason,
        "cause": block.cause,
        "since": block.since or None,
        "source": block.names.table.source if block.names is not None else "",
        "coverage": digits(block.quality.coverage),
        "lost": block.quality.lost,
        "lost_seconds": digits(block.quality.lost_seconds),
        "sheds": block.quality.sheds,
        "gaps": block.quality.gaps,
        "entities": block.shape[0],
        "entities_hidden": section.hidden,
    }


def _row(row: Row) -> dict[str, Any]:
    fields = msgspec.structs.asdict(row)
    for name in ("mean", "deviation", "trend", "last", "stale_seconds", "lost_seconds"):
        fields[name] = digits(fields[name])
    fields["extra"] = {name: digits(value) for name, value in row.extra.items()}
    fields["age_seconds"] = None if row.age_seconds is None else round(row.age_seconds, 6)
    return fields
