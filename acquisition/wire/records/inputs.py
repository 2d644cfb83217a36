"""Section of decision inputs, stored after the header of a smoothed record.

One GETRANGE reads both.

Layout (little-endian), for C columns (the last D of them derived: no frame carries them), E entities of the record::

    header      48 bytes, see HEADER_FIELDS
    since       E x float64           wall clock of the first sample known to an entity's figures
    figures     F x C x E x float32   cusum, time_above, [lowest, highest], [median, mad, q1, q3]: see figure_names
    derived     5 x D x E x float32   see DERIVED_PLANES: figures missing in the smoothed planes
    bursts      B x E x float32       see BURST_FIGURES: of cpu_busy_ratio, where it is derived; else B is 0
    thresholds  C x float32
    slacks      C x float32
    sources     (C - D) x uint16      column in the frame of each carried column
    seen        E x uint8             ticks since ``since``, at most the window
    counts      3 x C x E x uint8     see COUNTS
    codes       D x E x uint8         validity of derived samples
    names       C names, each terminated by a newline
    padding     zeros to a multiple of 8

It has no magic and no version: those of the record count (``acquisition.wire.records.smoothed``). ``encode`` is the
reference for all writers; ``tests/acquisition/wire/test_inputs_wire.py`` contains golden bytes and round trips.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError

ORDER_STATISTICS = 1  #: bit of ``figures``: there are median, mad, q1, q3
PLATEAU = 2  #: bit of ``figures``: there are lowest and highest of the last ``plateau`` valid samples
ALWAYS_KEPT = ("cusum", "time_above")
PLATEAU_FIGURES = ("lowest", "highest")
ORDER_FIGURES = ("median", "mad", "q1", "q3")
FIGURES = ALWAYS_KEPT + PLATEAU_FIGURES + ORDER_FIGURES
#: Valid samples in the window; valid ones among those for k of n, and those above the threshold.
COUNTS = ("valid", "counted", "above")
KEPT = FIGURES + COUNTS  #: all figures that may be kept for a column, by name
#: Content of the smoothed record for columns of a frame, missing there for derived ones.
DERIVED_PLANES = ("last", "mean", "variance", "trend", "age")
BURST_SLOTS = 6  #: of half an hour each, for which bursts are remembered
BURST_FIGURES = (
    *("open", "peak", "held", "slot", "since", "length", "period", "regular"),
    *(f"{name}_{slot}" for name in ("longest", "count", "height") for slot in range(BURST_SLOTS)),
)
MOST_TICKS = 255  #: of a window: counts are single bytes

HEADER_FIELDS: tuple[tuple[str, str], ...] = (
    ("columns", "B"),
    ("derived", "B"),
    ("figures", "B"),  # ORDER_STATISTICS, PLATEAU
    ("bursts", "B"),  # BURST_FIGURES, or 0
    ("window", "H"),  # ticks
    ("counted", "H"),  # ticks, among which those above the threshold are counted
    ("plateau", "H"),  # number of valid samples for lowest and highest; 0: none
    ("depth", "H"),  # rows of the ring of recent values
    ("names_size", "H"),
    ("least", "H"),  # samples needed to judge a window
    ("step", "Q"),  # of this tick: counts ticks of this resource set, missing ones included
    ("first", "Q"),  # the oldest step known to the windows
    ("window_seconds", "f"),
    ("counted_seconds", "f"),
    ("plateau_seconds", "f"),
    ("unused", "4s"),
)
HEADER = struct.Struct("<" + "".join(code for _, code in HEADER_FIELDS))
Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


class Head(NamedTuple):
    """The header of a section, in wire order."""

    columns: int
    derived: int
    figures: int
    bursts: int
    window: int
    counted: int
    plateau: int
    depth: int
    names_size: int
    least: int
    step: int
    first: int
    window_seconds: float
    counted_seconds: float
    plateau_seconds: float
    unused: bytes = b""

    def places(self, entities: int) -> Places:
        """Offsets of the parts in a section of this number of entities."""
        return places(self.columns, self.derived, self.figures, self.bursts, self.names_size, entities)


class Section(NamedTuple):
    """A decoded section; arrays are read-only views with shapes and types as in the layout: ``figures``
    (F, C, E), ``derived`` (5, D, E), ``bursts`` (B, E), ``counts`` (3, C, E), ``codes`` (D, E)."""

    head: Head
    since: npt.NDArray[np.float64]
    figures: Floats
    derived: Floats
    bursts: Floats
    thresholds: Floats
    slacks: Floats
    sources: npt.NDArray[np.uint16]
    seen: Bytes
    counts: Bytes
    codes: Bytes
    names: tuple[str, ...]

    def figure(self, name: str) -> Floats:
        """One of FIGURES, float32 (C, E). Raises KeyError for one that is not in the section."""
        names = figure_names(self.head.figures)
        if name not in names:
            raise KeyError(name)
        found: Floats = self.figures[names.index(name)]
        return found

    def tally(self, name: str) -> Bytes:
        """One of COUNTS, uint8 (C, E)."""
        found: Bytes = self.counts[COUNTS.index(name)]
        return found


class Places(NamedTuple):
    """Offset of each part of a section, in bytes from its start, and its whole size, padding included."""

    since: int
    figures: int
    derived: int
    bursts: int
    thresholds: int
    slacks: int
    sources: int
    seen: int
    counts: int
    codes: int
    names: int
    size: int


@lru_cache(256)
def figure_names(figures: int) -> tuple[str, ...]:
    """FIGURES that are present, in their order, by the bits of a header."""
    return (
        ALWAYS_KEPT
        + (PLATEAU_FIGURES if figures & PLATEAU else ())
        + (ORDER_FIGURES if figures & ORDER_STATISTICS else ())
    )


@lru_cache(4096)
def places(columns: int, derived: int, figures: int, bursts: int, names_size: int, entities: int) -> Places:
    """Places of a section of that shape."""
    c, d, e = columns, derived, entities
    sizes = (
        8 * e,
        4 * len(figure_names(figures)) * c * e,
        4 * len(DERIVED_PLANES) * d * e,
        4 * bursts * e,
        4 * c,
        4 * c,
        2 * (c - d),
        e,
        len(COUNTS) * c * e,
        d * e,
        names_size,
    )
    starts = [HEADER.size]
    for size in sizes:
        starts.append(starts[-1] + size)
    return Places._make((*starts[:-1], padded(starts[-1])))


def padded(size: int) -> int:
    """The next multiple of 8."""
    return size + -size % 8


def check(data: bytes | memoryview, entities: int) -> Head:
    """Header of a whole section of a record with this number of entities, for which ``decode`` is then sure to succeed;
    builds no arrays. Raises FrameError."""
    head = unpack_head(data)
    c, d = head.columns, head.derived
    ordered = 1 <= head.counted <= head.window <= min(head.depth, MOST_TICKS) and head.plateau <= head.window
    known = not head.figures & ~(ORDER_STATISTICS | PLATEAU) and bool(head.figures & PLATEAU) == bool(head.plateau)
    known = known and head.bursts in (0, len(BURST_FIGURES))
    if not c or d > c or not ordered or not known or head.places(entities).size != len(data):
        raise FrameError("shape", f"decision inputs of {c} columns, {entities} entities do not match {len(data)} bytes")
    names_of(head, entities, data)
    return head


def unpack_head(data: bytes | memoryview) -> Head:
    """Header at the start of ``data``. Raises FrameError if it is truncated."""
    if len(data) < HEADER.size:
        raise FrameError("short", f"invalid decision inputs of {len(data)} bytes")
    return Head._make(HEADER.unpack_from(data))


def decode(data: bytes | memoryview, entities: int, head: Head | None = None) -> Section:
    """Section in ``data``, of a record with this number of entities; ``head`` is the result of ``check``, if it was
    called. Raises FrameError if it is invalid."""
    if head is None:
        head = check(data, entities)
    c, d, e = head.columns, head.derived, entities
    cut = Cutter(data, HEADER.size)
    return Section(
        head,
        cut.take("<f8", e),
        cut.take("<f4", len(figure_names(head.figures)), c, e),
        cut.take("<f4", len(DERIVED_PLANES), d, e),
        cut.take("<f4", head.bursts, e),
        cut.take("<f4", c),
        cut.take("<f4", c),
        cut.take("<u2", c - d),
        cut.take("u1", e),
        cut.take("u1", len(COUNTS), c, e),
        cut.take("u1", d, e),
        names_of(head, e, data),
    )


def encode(section: Section) -> bytes:
    """Bytes of a section; ``names_size`` of its head is corrected."""
    names = pack_names(section.names)
    body = b"".join(
        (
            HEADER.pack(*section.head._replace(names_size=len(names))),
            np.asarray(section.since, "<f8").tobytes(),
            np.asarray(section.figures, "<f4").tobytes(),
            np.asarray(section.derived, "<f4").tobytes(),
            np.asarray(section.bursts, "<f4").tobytes(),
            np.asarray(section.thresholds, "<f4").tobytes(),
            np.asarray(section.slacks, "<f4").tobytes(),
            np.asarray(section.sources, "<u2").tobytes(),
            np.asarray(section.seen, "u1").tobytes(),
            np.asarray(section.counts, "u1").tobytes(),
            np.asarray(section.codes, "u1").tobytes(),
            names,
        )
    )
    return body.ljust(padded(len(body)), b"\0")


def pack_names(names: Sequence[str]) -> bytes:
    """Names of columns, each terminated by a newline."""
    return "".join(f"{name}\n" for name in names).encode()


def names_of(head: Head, entities: int, data: bytes | memoryview) -> tuple[str, ...]:
    """Names of the columns of a section. Raises FrameError("names")."""
    at = head.places(entities).names
    return split_names(bytes(data[at : at + head.names_size]), head.columns)


@lru_cache(1024)
def split_names(data: bytes, count: int) -> tuple[str, ...]:
    """Names packed by ``pack_names``. Raises FrameError("names") if these are not ``count`` names."""
    try:
        names = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise FrameError("names", f"invalid column names: {error}") from error
    if len(names) != count + 1 or names[-1]:
        raise FrameError("names", f"{len(names) - 1} names of {count} columns")
    return tuple(names[:-1])


class Cutter:
    """Cuts consecutive arrays off ``data``."""

    def __init__(self, data: bytes | memoryview, at: int) -> None:
        self._data = data
        self.at = at

    def take(self, dtype: str, *shape: int) -> npt.NDArray[Any]:
        """The next array, a view."""
        count = 1
        for size in shape:
            count *= size
        array = np.frombuffer(self._data, dtype, count, self.at).reshape(shape)
        self.at += array.nbytes
        return array


def head_fields(what: str, data: bytes, layout: struct.Struct, magic: bytes, read: tuple[int, ...]) -> tuple[Any, ...]:
    """Fields of the header at the start of ``data``, of which the first two are magic and version.

    Raises FrameError if ``data`` is too short, has another magic, or a version not in ``read``:
    "newer" for the next one, written by a newer filter, "version" for others.
    """
    if len(data) < layout.size:
        raise FrameError("short", f"{what} too short: {len(data)} bytes")
    fields = layout.unpack_from(data)
    if fields[0] != magic:
        raise FrameError("magic", f"starts with {fields[0]!r} instead of {magic!r}")
    if fields[1] not in read:
        reason = "newer" if fields[1] == read[-1] + 1 else "version"
        versions_read = " and ".join(map(str, read))
        raise FrameError(reason, f"{what} version {fields[1]} is not supported (supported: {versions_read})")
    return fields
