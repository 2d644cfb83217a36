"""Recent values: raw values and moving averages of what has decision inputs, one row per tick.

In the hash ``recent:{tag}:HOST:SET`` the field ``step % depth`` holds the row of a step, the field
``l<step>`` says whose values the rows are whose ``layout`` is that step. Steps count the ticks of a
resource set, those that never came included, so a row whose step is not the one that its field
should hold is old, and its tick is missing. Row: header of 56 bytes (ROW_FIELDS), then raw values and moving
averages (C x E x float32 each) and codes (C x E x uint8). Layout: ``<4sBxHI``, then ids, then names.

Readers accept VERSIONS; which of them is written, the record format says (``acquisition.wire.record_format``).
``tests/acquisition/wire/test_inputs_wire.py`` holds golden bytes and round trips.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError
from acquisition.wire import record_format
from acquisition.wire.inputs import Cutter, Floats, check_magic, pack_names, split_names
from acquisition.wire.record_format import check_version

VERSIONS = record_format.known("recent")  #: that are read
VERSION = VERSIONS[-1]
ROW_MAGIC = b"SPRR"
LAYOUT_MAGIC = b"SPRL"

ROW_FIELDS: tuple[tuple[str, str], ...] = (
    ("magic", "4s"),
    ("version", "B"),
    ("columns", "B"),
    ("reserved", "H"),
    ("entities", "I"),
    ("unused", "I"),
    ("epoch", "Q"),
    ("step", "Q"),
    ("layout", "Q"),
    ("tick", "q"),
    ("wall", "d"),
)
ROW_HEADER = struct.Struct("<" + "".join(code for _, code in ROW_FIELDS))
LAYOUT_HEADER = struct.Struct("<4sBxHI")
LAYOUT_PREFIX = b"l"


class Row(NamedTuple):
    """A decoded row of recent values: ``raw`` and ``mean`` float32 (C, E), ``codes`` uint8 (C, E)."""

    epoch: int
    step: int
    layout: int
    tick: int
    wall: float
    raw: Floats
    mean: Floats
    codes: npt.NDArray[np.uint8]


class RowLayout(NamedTuple):
    """Whose values rows are."""

    ids: npt.NDArray[np.uint64]
    names: tuple[str, ...]


def decode_row(data: bytes) -> Row:
    """The row in ``data``. Raises FrameError when it is none."""
    if len(data) < ROW_HEADER.size:
        raise FrameError("short", f"{len(data)} bytes are no row of recent values")
    magic, version, c, _, n, _, epoch, step, layout, tick, wall = ROW_HEADER.unpack_from(data)
    check_magic(magic, ROW_MAGIC)
    check_version("row of recent values", version, VERSIONS)
    if not c or ROW_HEADER.size + 9 * c * n != len(data):
        raise FrameError("shape", f"{c} columns of {n} entities do not fit {len(data)} bytes")
    cut = Cutter(data, ROW_HEADER.size)
    return Row(epoch, step, layout, tick, wall, cut.take("<f4", c, n), cut.take("<f4", c, n), cut.take("u1", c, n))


def layout_field(step: int) -> bytes:
    """The field that says whose values the rows are whose layout is ``step``."""
    return b"%b%d" % (LAYOUT_PREFIX, step)


def layout_of(field: bytes) -> int | None:
    """The step of a layout field; None for other fields."""
    digits = field.removeprefix(LAYOUT_PREFIX)
    return int(digits) if digits != field and digits.isdigit() and len(digits) < 20 else None


def encode_layout(ids: bytes, names: Sequence[str], version: int = VERSION) -> bytes:
    """The value of a layout field; ``ids`` are uint64 as bytes."""
    return LAYOUT_HEADER.pack(LAYOUT_MAGIC, version, len(names), len(ids) // 8) + ids + pack_names(names)


def decode_layout(data: bytes) -> RowLayout:
    """The layout in ``data``. Raises FrameError when it is none."""
    if len(data) < LAYOUT_HEADER.size:
        raise FrameError("short", f"{len(data)} bytes are no layout of recent values")
    magic, version, c, n = LAYOUT_HEADER.unpack_from(data)
    check_magic(magic, LAYOUT_MAGIC)
    check_version("layout of recent values", version, VERSIONS)
    if LAYOUT_HEADER.size + 8 * n > len(data):
        raise FrameError("shape", f"{n} entities do not fit {len(data)} bytes")
    cut = Cutter(data, LAYOUT_HEADER.size)
    return RowLayout(cut.take("<u8", n), split_names(data[cut.at :], c))
