"""The columns of each kind of listing: titles, widths, and what stands in a cell. Missing is a word, never a 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from acquisition.model import codes
from acquisition.wire.planes import Plane
from filters.text.quantities import quantity, seconds
from filters.text.sparkline import bars, full_height
from filters.top import order
from filters.top.history import LENGTH, History
from filters.top.listing import ENTITIES, HOSTS, METRICS, Listing
from filters.top.look import Look

ABSENT = "missing"
HOT, WARM = 0.9, 0.7  #: CPU or memory of a host from which on it is marked
_STEEP = 0.005  #: trend per second, of one core or all, from which on an arrow is shown


class Cell(NamedTuple):
    """Text and style of one cell."""

    text: str
    style: str = ""


class Row(NamedTuple):
    """The row ``at`` of a listing with its history, and the room that a cell of it has."""

    listing: Listing
    history: History
    at: int
    width: int
    look: Look


class Column(NamedTuple):
    """``width`` is the least; ``grows`` columns share what room there is, up to ``most``. When the terminal is
    too narrow, those of the lowest ``rank`` are left out first."""

    title: str
    width: int
    cell: Callable[[Row], Cell]
    sort: str = ""
    right: bool = True
    most: int = 0
    rank: int = 5
    short: str = ""  #: the title where the whole one does not fit

    def heading(self, width: int) -> str:
        """The title that fits."""
        return self.short if self.short and len(self.title) > width else self.title


def heat(value: float, unit: str) -> str:
    """The style of a ratio of a host."""
    if unit != "ratio":
        return "bold"
    return "bold red" if value >= HOT else "bold yellow" if value >= WARM else "bold"


def _name(row: Row) -> Cell:
    """The name; of a VM that migrates with where it goes."""
    note = row.listing.notes[row.at] if row.listing.notes else ""
    return Cell(f"{row.listing.names[row.at]} {note}", "yellow") if note else Cell(row.listing.names[row.at])


def _metric(row: Row) -> Cell:
    """The name without its unit, which the figure carries."""
    name = row.listing.names[row.at]
    return Cell(name.removesuffix("_per_second").removesuffix("_bytes").removesuffix("_ratio"))


def _label(row: Row) -> Cell:
    """A pid, or the beginning of a uuid."""
    return Cell(row.listing.labels[row.at][: row.width], "dim")


def _mean(row: Row) -> Cell:
    """The moving average, with an arrow where it rises or falls fast."""
    listing, i = row.listing, row.at
    value, trend = float(listing.mean[i]), float(listing.trend[i])
    if math.isnan(value):
        return Cell(ABSENT, "yellow")
    arrow = "" if listing.kind == METRICS else " ↑" if trend >= _STEEP else " ↓" if trend <= -_STEEP else "  "
    style = heat(value, listing.units[i]) if listing.kind == HOSTS else "bold"
    return Cell(quantity(value, listing.units[i]) + arrow, style)


def _deviation(row: Row) -> Cell:
    value = float(row.listing.deviation[row.at])
    return Cell("-" if math.isnan(value) else quantity(value, row.listing.units[row.at]))


def _extra(plane: Plane) -> Column:
    """The column of the figure of a further kernel."""

    def cell(row: Row) -> Cell:
        return Cell(quantity(float(row.listing.extra[plane][row.at]), plane.unit_of(row.listing.units[row.at])))

    return Column(plane.figure.upper(), max(8, len(plane.figure)), cell, rank=0)


def _raw(row: Row) -> Cell:
    """The newest raw value; the code instead where it is not valid."""
    listing, i = row.listing, row.at
    code = int(listing.codes[i])
    if code != codes.VALID:
        return Cell(codes.name_of(code), "yellow")
    return Cell(quantity(float(listing.last[i]), listing.units[i]))


def _sparkline(smoothed: bool) -> Callable[[Row], Cell]:
    def cell(row: Row) -> Cell:
        past, i = row.history, row.at
        known = min(row.width, int(past.filled[i]), LENGTH)
        both = [plane[i, LENGTH - known :] for plane in (past.raw, past.mean)]
        high = max(
            [full_height(row.listing.units[i]), *(float(v) for plane in both for v in plane if math.isfinite(v))]
        )
        values = both[1] if smoothed else both[0]
        return Cell(bars(values.tolist(), high, row.look.levels).rjust(row.width), "cyan" if smoothed else "dim cyan")

    return cell


def _memory(row: Row) -> Cell:
    listing, value = row.listing, float(row.listing.memory[row.at])
    if math.isnan(value):
        return Cell(ABSENT, "yellow")
    hot = listing.memory_unit == "ratio" and value >= HOT
    return Cell(quantity(value, listing.memory_unit), "bold red" if hot else "")


def _invalid(row: Row) -> Cell:
    count = int(row.listing.invalid[row.at])
    text = str(count)
    return Cell(text if len(text) <= row.width else ">" + "9" * (row.width - 1), "yellow" if count else "dim")


def _age(row: Row) -> Cell:
    return Cell(seconds(float(row.listing.age[row.at])), "" if row.listing.codes[row.at] == codes.VALID else "yellow")


_RAW_LINE = Column("RAW TICKS", 6, _sparkline(smoothed=False), right=False, most=LENGTH, rank=2, short="TICKS")
_MEAN_LINE = Column("SMOOTHED", 6, _sparkline(smoothed=True), right=False, most=LENGTH, rank=3, short="SMOOTH")
_AGE = Column("AGE", 6, _age, order.AGE, rank=7)
_INVALID = Column("INV", 3, _invalid, order.INVALID, rank=4)
_DEVIATION = Column("±DEV", 5, _deviation, order.DEVIATION, rank=1)

#: The first column grows with the names, the sparklines take the rest.
COLUMNS: dict[str, tuple[Column, ...]] = {
    HOSTS: (
        Column("HOST", 14, _name, order.NAME, right=False, rank=9),
        Column("CPU", 7, _mean, order.CPU, rank=8),
        _DEVIATION,
        Column("RAW", 7, _raw, order.RAW, rank=6),
        _RAW_LINE,
        _MEAN_LINE,
        Column("MEM", 7, _memory, order.MEMORY, rank=5),
        _INVALID,
        _AGE,
    ),
    ENTITIES: (
        Column("NAME", 14, _name, order.NAME, right=False, rank=9),
        Column("ID", 7, _label, rank=1),
        Column("CPU", 7, _mean, order.CPU, rank=8),
        _DEVIATION._replace(rank=2),
        Column("RAW", 7, _raw, order.RAW, rank=6),
        _RAW_LINE,
        _MEAN_LINE,
        Column("MEMORY", 8, _memory, order.MEMORY, rank=5),
        _INVALID,
        _AGE,
    ),
    METRICS: (
        Column("METRIC", 19, _metric, order.NAME, right=False, rank=9),
        Column("RAW", 12, _raw, rank=6),
        Column("SMOOTHED", 10, _mean, rank=8),
        Column("±DEV", 10, _deviation, rank=1),
        _RAW_LINE,
        _MEAN_LINE,
        _AGE,
    ),
}


def laid_out(listing: Listing, width: int, longest: int) -> list[tuple[Column, int]]:
    """The columns that fit into ``width``, one space between them, and how wide each is; ``longest`` is the
    longest name."""
    own = COLUMNS[listing.kind]
    lines = own.index(_RAW_LINE)
    chosen = [*own[:lines], *map(_extra, listing.extra), *own[lines:]]
    while len(chosen) > 1 and _needed(chosen) > width:
        chosen.remove(min(chosen, key=lambda column: column.rank))
    room = max(0, width - _needed(chosen))
    widths = {column: column.width for column in chosen}
    name = chosen[0]
    sparklines = [column for column in chosen if column.most]
    grown = min(max(0, longest - name.width), room // 2 if sparklines else room)
    widths[name] += grown
    room -= grown
    for place, column in enumerate(sparklines):
        extra = min(room // (len(sparklines) - place), column.most - column.width)
        widths[column] += extra
        room -= extra
    if len(chosen) == 1:
        widths[name] = min(widths[name], width)
    return list(widths.items())


def _needed(columns: list[Column]) -> int:
    return sum(column.width for column in columns) + len(columns) - 1
