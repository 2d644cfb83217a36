"""The record of decision inputs: one per tick beside the smoothed one.

Layout (``inputs:{tag}:HOST:SET:SLOT``), little-endian, for C columns and E entities::

    header      128 bytes, see HEADER_FIELDS
    ids         E x uint64
    since       E x float64       wall clock of the first sample that an entity's figures know of
    seen        E x uint16        ticks since then, at most the window
    thresholds  C x float32
    slacks      C x float32
    planes      P x C x E x float32, see PLANES; P is 12, without a plateau 10: the last two are left out
    derived     4 x D x E x float32, see DERIVED_PLANES: of the last D columns, which no frame carries
    codes       D x E x uint8     their validity
    names       C names, each ended by a newline

Version 1 knew no plateau; where version 2 says its length, version 1 has zeros, so that both are read alike.
Which of them is written, the record format says (``acquisition.wire.record_format``).
``tests/acquisition/wire/test_inputs_wire.py`` holds golden bytes and round trips.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError
from acquisition.wire import record_format
from acquisition.wire.record_format import check_version

MAGIC = b"SPIN"
VERSIONS = record_format.known("inputs")  #: that are read
VERSION = VERSIONS[-1]
PLATEAU_VERSION = 2  #: the first that can hold a plateau

#: Planes of every column. ``mean`` is the moving average after this tick, the baseline of the next CUSUM step.
PLANES = (
    "cusum", "time_above", "median", "mad", "q1", "q3", "mean", "valid", "counted", "above", "lowest", "highest",
)  # fmt: skip
_WITHOUT_PLATEAU = PLANES.index("lowest")
#: What the smoothed record says of the columns of a frame and cannot say of derived ones.
DERIVED_PLANES = ("last", "variance", "trend", "age")

HEADER_FIELDS: tuple[tuple[str, str], ...] = (
    ("magic", "4s"),
    ("version", "B"),
    ("columns", "B"),
    ("derived", "B"),
    ("reserved", "B"),
    ("entities", "I"),
    ("window", "H"),  # ticks
    ("depth", "H"),  # of the recent values
    ("names_size", "I"),
    ("resource_set", "I"),
    ("host", "Q"),
    ("schema", "I"),
    ("interval", "f"),
    ("epoch", "Q"),
    ("sequence", "Q"),
    ("tick", "q"),
    ("wall", "d"),
    ("monotonic", "d"),
    ("step", "Q"),  # of this tick
    ("first", "Q"),  # the oldest step that windows know of
    ("layout", "Q"),  # the step from which on the rows have been these
    ("counted", "H"),  # ticks, of which those above the threshold are counted
    ("plateau", "H"),  # valid samples whose lowest and highest are kept; 0: none
    ("unused", "20s"),
)
HEADER = struct.Struct("<" + "".join(code for _, code in HEADER_FIELDS))
Floats = npt.NDArray[np.float32]


class Head(NamedTuple):
    """The header of a record, in wire order."""

    magic: bytes
    version: int
    columns: int
    derived: int
    reserved: int
    entities: int
    window: int
    depth: int
    names_size: int
    resource_set: int
    host: int
    schema: int
    interval: float
    epoch: int
    sequence: int
    tick: int
    wall: float
    monotonic: float
    step: int
    first: int
    layout: int
    counted: int
    plateau: int
    unused: bytes


class InputsRecord(NamedTuple):
    """A decoded record; arrays are read-only views: ``ids`` uint64 (E,), ``since`` float64 (E,), ``seen`` uint16 (E,),
    ``thresholds`` and ``slacks`` float32 (C,), ``planes`` float32 (P, C, E), ``derived`` float32 (4, D, E),
    ``codes`` uint8 (D, E)."""

    head: Head
    ids: npt.NDArray[np.uint64]
    since: npt.NDArray[np.float64]
    seen: npt.NDArray[np.uint16]
    thresholds: Floats
    slacks: Floats
    planes: Floats
    derived: Floats
    codes: npt.NDArray[np.uint8]
    names: tuple[str, ...]

    def plane(self, name: str) -> Floats:
        """One of PLANES, float32 (C, E). Raises KeyError for one that the record has not."""
        if name not in PLANES[: len(self.planes)]:
            raise KeyError(name)
        found: Floats = self.planes[PLANES.index(name)]
        return found


def pack_names(names: Sequence[str]) -> bytes:
    """Names of columns, each ended by a newline."""
    return "".join(f"{name}\n" for name in names).encode()


def plane_count(plateau: int) -> int:
    """How many of PLANES there are, of a plateau of so many valid samples."""
    return len(PLANES) if plateau else _WITHOUT_PLATEAU


def check(data: bytes) -> Head:
    """The header of a whole record, of which ``decode`` is then sure to succeed; builds no arrays.

    Raises FrameError.
    """
    if len(data) < HEADER.size:
        raise FrameError("short", f"{len(data)} bytes are no decision inputs")
    head = Head._make(HEADER.unpack_from(data))
    check_magic(head.magic, MAGIC)
    check_version("decision inputs", head.version, VERSIONS)
    c, n, d = head.columns, head.entities, head.derived
    size = record_size(c, n, d, head.plateau)
    ordered = 1 <= head.counted <= head.window <= head.depth and head.plateau <= head.window
    if not c or d > c or not ordered or size + head.names_size != len(data):
        raise FrameError("shape", f"{c} columns of {n} entities do not fit {len(data)} bytes")
    split_names(data[size:], c)
    return head


def record_size(columns: int, entities: int, derived: int, plateau: int) -> int:
    """Bytes of a record without the names of its columns."""
    series = 4 * plane_count(plateau) * columns + (4 * len(DERIVED_PLANES) + 1) * derived
    return HEADER.size + 8 * columns + (18 + series) * entities


def decode(data: bytes) -> InputsRecord:
    """The record in ``data``. Raises FrameError when it is none."""
    head = check(data)
    c, n, d = head.columns, head.entities, head.derived
    cut = Cutter(data, HEADER.size)
    return InputsRecord(
        head,
        cut.take("<u8", n),
        cut.take("<f8", n),
        cut.take("<u2", n),
        cut.take("<f4", c),
        cut.take("<f4", c),
        cut.take("<f4", plane_count(head.plateau), c, n),
        cut.take("<f4", len(DERIVED_PLANES), d, n),
        cut.take("u1", d, n),
        split_names(data[-head.names_size :], c),
    )


class Cells(NamedTuple):
    """Where the figures of one series lie in a record: what a reader of one row takes without decoding the rest.

    Offsets in bytes; ``stride`` in elements, from plane to plane.
    """

    since: int
    seen: int
    threshold: int
    planes: int
    stride: int


def cells(head: Head, column: int, row: int) -> Cells:
    """The place of a column (0 to C - 1) and row (0 to E - 1) in a checked record."""
    c, n = head.columns, head.entities
    since = HEADER.size + 8 * n
    seen = since + 8 * n
    thresholds = seen + 2 * n
    return Cells(
        since + 8 * row, seen + 2 * row, thresholds + 4 * column, thresholds + 8 * c + 4 * (column * n + row), c * n
    )


class DerivedCells(NamedTuple):
    """As Cells, of a derived column: its planes, ``stride`` elements from one to the next, and its code."""

    planes: int
    stride: int
    code: int


def derived_cells(head: Head, place: int, row: int) -> DerivedCells:
    """The place of a derived column (0 to D - 1) and row in a checked record."""
    n, d = head.entities, head.derived
    planes = record_size(head.columns, n, 0, head.plateau)
    codes = planes + 4 * len(DERIVED_PLANES) * d * n
    return DerivedCells(planes + 4 * (place * n + row), d * n, codes + place * n + row)


def names_of(head: Head, data: bytes) -> tuple[str, ...]:
    """The names of the columns of a checked record."""
    return split_names(data[-head.names_size :], head.columns)


class Cutter:
    """Cuts arrays off ``data`` one behind the other."""

    def __init__(self, data: bytes, at: int) -> None:
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


def check_magic(found: bytes, magic: bytes) -> None:
    """Raise FrameError unless ``found`` is ``magic``."""
    if found != magic:
        raise FrameError("magic", f"starts with {found!r} instead of {magic!r}")


@lru_cache(1024)
def split_names(data: bytes, count: int) -> tuple[str, ...]:
    """What ``pack_names`` packed. Raises FrameError("names") when these are not ``count`` names."""
    try:
        names = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise FrameError("names", f"no names of columns: {error}") from error
    if len(names) != count + 1 or names[-1]:
        raise FrameError("names", f"{len(names) - 1} names of {count} columns")
    return tuple(names[:-1])
