"""Column table: titles, widths, cells, plain text, help, orders and keys.

A new column is one entry here. A missing value is a word, never a 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes
from acquisition.snapshot.values.states import STATES
from acquisition.wire.records.planes import Plane
from filters.text.quantities import ABSENT, quantity, seconds
from filters.text.sparkline import bars, full_height
from filters.top.listings.history import LENGTH, History
from filters.top.listings.listing import ENTITIES, HOSTS, METRICS, STATE_CURRENT, Listing

MISSING = "missing"
HOT, WARM = 0.9, 0.7  #: CPU or memory of a host above which it is marked
_STEEP = 0.005  #: trend per second, of one core or all, above which an arrow is shown

CPU, RAW, DEVIATION, TREND, MEMORY, INVALID, AGE, NAME, STATE, AS_IS = (
    "cpu", "raw", "dev", "trend", "mem", "inv", "age", "name", "state", "table",
)  # fmt: skip


class Cell(NamedTuple):
    """Text and style of one cell."""

    text: str
    style: str = ""


class Row(NamedTuple):
    """The row ``at`` of a listing with its history, and the width of one of its cells."""

    listing: Listing
    history: History
    at: int
    width: int
    levels: str  #: characters of sparklines, lowest first


class Column(NamedTuple):
    """One column. ``cell`` fills it on the screen, ``text`` in a pipe, where None omits it.

    On the screen ``width`` is the minimum; ``grows`` columns share the remaining width, up to ``most``. In a narrow
    terminal the columns with the lowest ``rank`` are omitted first. ``value``: sort key of rows; ``absent``:
    text in a pipe for rows without figures, "" for the text of other rows. ``order``: its place among the
    sort orders, 0 if there is none; ``key`` sorts by it, ``word`` is its name in the help of that key.
    """

    name: str  #: value of --sort, if rows can be sorted by it
    title: str
    width: int = 0
    cell: Callable[[Row], Cell] | None = None
    text: Callable[[Listing, int], str] | None = None
    value: Callable[[Listing], npt.NDArray[Any]] | None = None
    help: str = ""
    right: bool = True
    most: int = 0
    rank: int = 5
    short: str = ""  #: the title if the whole one does not fit
    absent: str = ABSENT
    first: bool = False  #: on the screen it is next to the name
    order: int = 0
    key: str = ""
    word: str = ""

    def heading(self, width: int) -> str:
        """The longest title that fits."""
        return self.short if self.short and len(self.title) > width else self.title


def heat(value: float, unit: str) -> str:
    """Style of a ratio of a host."""
    if unit != "ratio":
        return "bold"
    return "bold red" if value >= HOT else "bold yellow" if value >= WARM else "bold"


def has_figures(listing: Listing, at: int) -> bool:
    """Whether a row has figures: it is current, and has no reason to show none."""
    return bool(listing.state[at] == STATE_CURRENT) and not listing.reasons[at]


def figure(value: float, unit: str) -> str:
    """A value with its unit, or the word for a missing one."""
    text = quantity(value, unit)
    return MISSING if text == ABSENT else text


def _name(row: Row) -> Cell:
    """The name with a note: destination of a migrating VM, verdict on a host."""
    note = row.listing.notes[row.at] if row.listing.notes else ""
    return (
        Cell(f"{row.listing.names[row.at]} {note}", "bold red" if note == "hot" else "yellow")
        if note
        else Cell(row.listing.names[row.at])
    )


def _metric(row: Row) -> Cell:
    """The name without its unit, which is shown with the value."""
    name = row.listing.names[row.at]
    return Cell(name.removesuffix("_per_second").removesuffix("_bytes").removesuffix("_ratio"))


def _label(row: Row) -> Cell:
    """A pid, or the start of a uuid."""
    return Cell(row.listing.labels[row.at][: row.width], "dim")


def _mean(row: Row) -> Cell:
    """The moving average, with an arrow if it rises or falls fast."""
    listing, i = row.listing, row.at
    value, trend = float(listing.mean[i]), float(listing.trend[i])
    if math.isnan(value):
        return Cell(MISSING, "yellow")
    arrow = "" if listing.kind == METRICS else " ↑" if trend >= _STEEP else " ↓" if trend <= -_STEEP else "  "
    style = heat(value, listing.units[i]) if listing.kind == HOSTS else "bold"
    return Cell(quantity(value, listing.units[i]) + arrow, style)


def _deviation(row: Row) -> Cell:
    value = float(row.listing.deviation[row.at])
    return Cell("-" if math.isnan(value) else quantity(value, row.listing.units[row.at]))


def _raw(row: Row) -> Cell:
    """The newest raw value, or its code if it is not valid."""
    listing, i = row.listing, row.at
    code = int(listing.codes[i])
    if code != codes.VALID:
        return Cell(codes.name_of(code), "yellow")
    return Cell(quantity(float(listing.last[i]), listing.units[i]))


def _valid_raw(listing: Listing) -> npt.NDArray[np.float64]:
    return np.where(listing.codes == codes.VALID, listing.last, np.nan)


def _sparkline(smoothed: bool) -> Callable[[Row], Cell]:
    def cell(row: Row) -> Cell:
        past, i = row.history, row.at
        known = min(row.width, int(past.filled[i]), LENGTH)
        both = [plane[i, LENGTH - known :] for plane in (past.raw, past.mean)]
        high = max(
            [full_height(row.listing.units[i]), *(float(v) for plane in both for v in plane if math.isfinite(v))]
        )
        values = both[1] if smoothed else both[0]
        return Cell(bars(values.tolist(), high, row.levels).rjust(row.width), "cyan" if smoothed else "dim cyan")

    return cell


def _memory(row: Row) -> Cell:
    listing, value = row.listing, float(row.listing.memory[row.at])
    if math.isnan(value):
        return Cell(MISSING, "yellow")
    hot = listing.memory_unit == "ratio" and value >= HOT
    return Cell(quantity(value, listing.memory_unit), "bold red" if hot else "")


def _invalid(row: Row) -> Cell:
    count = int(row.listing.invalid[row.at])
    text = str(count)
    return Cell(text if len(text) <= row.width else ">" + "9" * (row.width - 1), "yellow" if count else "dim")


def _age(row: Row) -> Cell:
    return Cell(seconds(float(row.listing.age[row.at])), "" if row.listing.codes[row.at] == codes.VALID else "yellow")


def _state(listing: Listing, at: int) -> str:
    state = ", ".join(filter(None, (STATES[listing.state[at]], listing.notes[at] if listing.notes else "")))
    return state if has_figures(listing, at) else f"{state}: {listing.reasons[at]}"


def _of_vms(metric: str, title: str, unit: str, help_: str) -> Column:
    """A column that only VMs have."""

    def text(listing: Listing, at: int) -> str:
        return figure(float(listing.own[metric][at]), unit)

    def cell(row: Row) -> Cell:
        found = text(row.listing, row.at)
        return Cell(found, "yellow" if found == MISSING else "")

    return Column(metric, title, max(7, len(title)), cell, text, help=help_, rank=4, absent=MISSING)


#: By metrics that VMs have and processes do not.
OF_VMS = (
    _of_vms("vcpu_count", "VCPUS", "count", "current number of vCPUs of a VM"),
    _of_vms(
        "vcpu_suffering_ratio", "SUFFER", "cores",
        "time that the vCPUs of a VM waited for a core, excluding throttling by their own CPU limit, in "
            "percent of one core",
    ),
)  # fmt: skip


def _extra(plane: Plane) -> Column:
    """Column for the figure of a further kernel."""

    def text(listing: Listing, at: int) -> str:
        return quantity(float(listing.extra[plane][at]), plane.unit_of(listing.units[at]))

    def cell(row: Row) -> Cell:
        return Cell(text(row.listing, row.at))

    return Column(plane.figure, plane.figure.upper(), max(8, len(plane.figure)), cell, text, rank=0)


_HOST = Column(
    NAME, "HOST", 14, _name, lambda rows, at: rows.names[at], right=False, rank=9, absent="", order=8, key="n",
    word="name",
)  # fmt: skip
_LABEL = Column("id", "ID", 7, _label, lambda rows, at: rows.labels[at], rank=1, absent="")
_CPU = Column(
    CPU, "CPU", 7, _mean, lambda rows, at: figure(float(rows.mean[at]), rows.units[at]), lambda rows: rows.mean,
    "smoothed use: of a host 1 - idle - iowait in percent of all its cores; of a VM or process in percent of "
    "An arrow: it changes by more than 0.5% per second", rank=8, absent=MISSING, order=1, key="c",
    word="CPU",
)  # fmt: skip
_DEVIATION = Column(
    DEVIATION, "±DEV", 5, _deviation, lambda rows, at: quantity(float(rows.deviation[at]), rows.units[at]),
    lambda rows: rows.deviation, "smoothed standard deviation; for a host an upper bound", rank=1, order=3,
)  # fmt: skip
_TREND = Column(
    TREND, "TREND/S", text=lambda rows, at: quantity(float(rows.trend[at]), rows.units[at]),
    value=lambda rows: rows.trend, order=4,
)  # fmt: skip
_RAW = Column(
    RAW, "RAW", 7, _raw, lambda rows, at: quantity(float(rows.last[at]), rows.units[at]), _valid_raw,
    "newest raw value, or the code of why it is not valid", rank=6, order=2,
)  # fmt: skip
#: The first column grows with the names, the sparklines take the remaining width.
_RAW_LINE = Column(
    "ticks", "RAW TICKS", 6, _sparkline(smoothed=False), right=False, most=LENGTH, rank=2, short="TICKS",
    help="last ticks, newest on the right; ? marks a tick without a valid value",
)  # fmt: skip
_MEAN_LINE = Column(
    "smoothed", "SMOOTHED", 6, _sparkline(smoothed=True), right=False, most=LENGTH, rank=3, short="SMOOTH",
    help="the same ticks smoothed, on the same scale",
)  # fmt: skip
_MEMORY = Column(
    MEMORY, "MEM", 7, _memory, lambda rows, at: figure(float(rows.memory[at]), rows.memory_unit),
    lambda rows: rows.memory,
    "memory used: of a host 1 - (available + free huge pages) / total; of a VM or process its resident memory",
    absent=MISSING, order=5, key="m", word="memory",
)  # fmt: skip
_INVALID = Column(
    INVALID, "INV", 3, _invalid, lambda rows, at: str(rows.invalid[at]), lambda rows: rows.invalid,
    "samples of this tick that failed a check (not MISSING, FIRST, LATE: no value); of a host its own metrics", rank=4,
    order=6, key="i", word="invalid samples",
)  # fmt: skip
_AGE = Column(
    AGE, "AGE", 6, _age, lambda rows, at: seconds(float(rows.age[at])), lambda rows: rows.age,
    "seconds since the newest valid value was sampled", rank=7, absent="", order=7, key="a",
    word="age",
)  # fmt: skip
_VALIDITY = Column("validity", "VALIDITY", text=lambda rows, at: codes.name_of(int(rows.codes[at])))
_STATE = Column(
    STATE, "STATE", text=_state, value=lambda rows: rows.state, absent="", order=9, key="t", word="state",
)  # fmt: skip

#: Columns of each kind of listing, in their order in a pipe.
COLUMNS: dict[str, tuple[Column, ...]] = {
    HOSTS: (
        _HOST, _CPU, _DEVIATION, _TREND, _RAW, _RAW_LINE, _MEAN_LINE, _MEMORY, _INVALID, _AGE, _VALIDITY, _STATE,
    ),
    ENTITIES: (
        _HOST._replace(title="NAME"), _LABEL, _CPU, _DEVIATION._replace(rank=2), _TREND, _RAW, _RAW_LINE, _MEAN_LINE,
        _MEMORY._replace(title="MEMORY", width=8), _INVALID, _AGE, _VALIDITY, _STATE._replace(order=0),
    ),
    METRICS: (
        _HOST._replace(title="METRIC", width=19, cell=_metric, order=1),
        _CPU._replace(title="SMOOTHED", width=10, order=0), _DEVIATION._replace(width=10, order=0),
        _TREND._replace(order=0), _RAW._replace(width=12, first=True, order=0), _RAW_LINE, _MEAN_LINE,
        _INVALID._replace(cell=None), _AGE, _VALIDITY, _STATE._replace(order=0),
    ),
}  # fmt: skip


def _ordering(kind: str) -> list[Column]:
    return sorted((column for column in COLUMNS[kind] if column.order), key=lambda column: column.order)


#: Sort orders of each kind of listing; the first one is the default.
SORTS = {
    kind: (*((AS_IS,) if kind == METRICS else ()), *(column.name for column in _ordering(kind))) for kind in COLUMNS
}
#: Columns with a key for sorting.
KEYED = tuple(column for column in _ordering(HOSTS) if column.key)


def columns_of(listing: Listing) -> list[Column]:
    """Columns of a listing, including those of further kernels with figures in it."""
    own = COLUMNS[listing.kind]
    lines = own.index(_RAW_LINE)
    vms = (column for column in OF_VMS if column.name in listing.own)
    return [*own[:lines], *vms, *map(_extra, listing.extra), *own[lines:]]


def laid_out(listing: Listing, width: int, longest: int) -> list[tuple[Column, int]]:
    """Columns that fit in ``width``, separated by one space, with their widths; ``longest``: length of the
    longest name."""
    name, *others = (column for column in columns_of(listing) if column.cell is not None)
    chosen = [name, *sorted(others, key=lambda column: not column.first)]
    while len(chosen) > 1 and _needed(chosen) > width:
        chosen.remove(min(chosen, key=lambda column: column.rank))
    room = max(0, width - _needed(chosen))
    widths = {column: column.width for column in chosen}
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
