"""Ring of recent values: raw values of decision inputs, one row per tick.

It is ONE string.

Layout of ``recent:{tag}:HOST:SET`` (little-endian), for C columns and ``capacity`` slots::

    header      64 bytes, see HEADER_FIELDS
    taus        C x float64       time constants in seconds: averages are recomputed from raw values
    names       C names, each terminated by a newline, padded to a multiple of 8
    slots       capacity x (id uint64, first uint64): owner of the slot, and since which step; id 0: free
    seeds       seeds x (step uint64, means C x capacity float32, padded to 8): the averages after the steps that are
                multiples of ``seed_every``, and after the first of a ring and of a life; place
                (step // seed_every) % seeds; NaN: no average yet; step 0: none
    rows        depth x row, place step % depth
    row         step uint32 (low half), life uint32 (low half of the epoch), wall float64, monotonic float64,
                raw C x capacity float32, outliers C x ceil(capacity / 8) bytes (bit i: slot i), padded to 8

Steps count the ticks of a resource set from 1, missing ones included. An invalid raw value is a
quiet NaN with its validity code in the lowest byte; GONE: the slot's entity was absent. A row counts if its step is
the one expected at its place (``Ring.order``), so that a missing tick needs no write; rows of a slot that
are older than its ``first`` belong to another entity.

Readers accept VERSIONS; the record format determines which is written (``acquisition.wire.records.record_format``).
``tests/acquisition/wire/test_recent_wire.py`` contains golden bytes and round trips.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError
from acquisition.model import codes as validity
from acquisition.wire.records import record_format
from acquisition.wire.records.inputs import Bytes, Cutter, Floats, head_fields, pack_names, padded, split_names

MAGIC = b"SPRG"
VERSIONS = record_format.known("recent")  #: supported by readers
VERSION = VERSIONS[-1]
SEEDS = 5
SEED_EVERY = 32  #: steps
GONE = 0xFF  #: code of a slot whose entity was absent at that tick
QUIET_NAN = 0x7FC00000
_LOW_HALF = 0xFFFFFFFF

HEADER_FIELDS: tuple[tuple[str, str], ...] = (
    ("magic", "4s"),
    ("version", "B"),
    ("columns", "B"),
    ("derived", "B"),
    ("seeds", "B"),
    ("capacity", "I"),  # slots
    ("depth", "H"),  # rows
    ("seed_every", "H"),  # steps
    ("names_size", "I"),
    ("resource_set", "I"),
    ("host", "Q"),
    ("interval", "f"),
    ("unused", "28s"),
)
HEADER = struct.Struct("<" + "".join(code for _, code in HEADER_FIELDS))
SLOT = struct.Struct("<QQ")  #: id, first
SLOT_DTYPE = np.dtype([("id", "<u8"), ("first", "<u8")])
ROW_HEADER = struct.Struct("<IIdd")  #: step, life, wall, monotonic
SEED_HEADER = struct.Struct("<Q")  #: step


class Places(NamedTuple):
    """Offset of each part of a ring, in bytes, the sizes of a seed and of a row, and its whole size."""

    taus: int
    names: int
    slots: int
    seeds: int
    rows: int
    seed_size: int
    row_size: int
    size: int


class Head(NamedTuple):
    """The header of a ring, in wire order."""

    magic: bytes
    version: int
    columns: int
    derived: int
    seeds: int
    capacity: int
    depth: int
    seed_every: int
    names_size: int
    resource_set: int
    host: int
    interval: float
    unused: bytes = b""

    @property
    def places(self) -> Places:
        """Offsets of the parts."""
        return places(self.columns, self.capacity, self.seeds, self.depth, self.names_size)

    def slot_at(self, slot: int) -> int:
        """Offset of a slot."""
        return self.places.slots + SLOT.size * slot

    def seed_at(self, step: int) -> int:
        """Offset of the averages after a step."""
        return self.places.seeds + self.places.seed_size * (step // self.seed_every % self.seeds)

    def row_at(self, step: int) -> int:
        """Offset of the row of a step."""
        return self.places.rows + self.places.row_size * (step % self.depth)


class Ring(NamedTuple):
    """A decoded ring; arrays are read-only views.

    ``slots`` SLOT_DTYPE (capacity,); ``seed_steps`` uint64 (seeds,), ``seed_means`` float32 (seeds, C, capacity);
    ``rows`` (depth,) records with ``step``, ``life``, ``wall``, ``monotonic``, ``raw`` (C, capacity) and ``outliers``
    (C, ceil(capacity / 8)).
    """

    head: Head
    taus: npt.NDArray[np.float64]
    names: tuple[str, ...]
    slots: npt.NDArray[np.void]
    seed_steps: npt.NDArray[np.uint64]
    seed_means: Floats
    rows: npt.NDArray[np.void]

    def order(self) -> npt.NDArray[np.intp]:
        """Places of the rows that count, oldest first: those of the newest life with one of the last ``depth``
        steps, at the place expected for it."""
        steps, depth = self.rows["step"].astype(np.int64), self.head.depth
        own = (steps > 0) & (steps % depth == np.arange(depth))
        newest = int(np.where(own, steps, 0).argmax())
        own &= (steps > steps[newest] - depth) & (self.rows["life"] == self.rows["life"][newest])
        found = np.flatnonzero(own)
        return found[np.argsort(steps[found])]


@lru_cache(4096)
def places(columns: int, capacity: int, seeds: int, depth: int, names_size: int) -> Places:
    """Places of a ring of that shape."""
    names = HEADER.size + 8 * columns
    slots = names + padded(names_size)
    seeds_at = slots + SLOT.size * capacity
    seed_size = SEED_HEADER.size + padded(4 * columns * capacity)
    rows = seeds_at + seeds * seed_size
    row_size = ROW_HEADER.size + padded(4 * columns * capacity + columns * outlier_bytes(capacity))
    return Places(HEADER.size, names, slots, seeds_at, rows, seed_size, row_size, rows + depth * row_size)


def outlier_bytes(capacity: int) -> int:
    """Number of bytes for the outlier bits of one column."""
    return (capacity + 7) // 8


def make_head(
    host: int, resource_set: int, interval: float, names: tuple[str, ...], derived: int, capacity: int, depth: int
) -> Head:
    """Header of a new ring."""
    size = len(pack_names(names))
    return Head(
        MAGIC, VERSION, len(names), derived, SEEDS, capacity, depth, SEED_EVERY, size, resource_set, host, interval
    )


def encode_front(head: Head, taus: npt.NDArray[np.float64], names: tuple[str, ...]) -> bytes:
    """Header, time constants and names: the beginning of a ring, before its slots."""
    packed = pack_names(names)
    return HEADER.pack(*head) + np.asarray(taus, "<f8").tobytes() + packed.ljust(padded(len(packed)), b"\0")


def encode_row(step: int, life: int, wall: float, monotonic: float, raw: Floats, codes: Bytes) -> bytes:
    """A row of ``raw`` float32 (C, capacity) and ``codes`` uint8 (C, capacity), GONE for absent entities."""
    usable = (codes & validity.CODE_MASK) == validity.VALID
    payload = np.where(usable, raw.astype("<f4").view("<u4"), np.uint32(QUIET_NAN) | codes)
    outliers = np.packbits(usable & (codes != validity.VALID), axis=1, bitorder="little")
    data = payload.astype("<u4").tobytes() + outliers.tobytes()
    head = ROW_HEADER.pack(step & _LOW_HALF, life & _LOW_HALF, wall, monotonic)
    return head + data.ljust(padded(len(data)), b"\0")


def encode_seed(step: int, means: Floats) -> bytes:
    """A seed of ``means`` float32 (C, capacity) after a step."""
    data = np.asarray(means, "<f4").tobytes()
    return SEED_HEADER.pack(step) + data.ljust(padded(len(data)), b"\0")


def codes_of(raw: Floats, outliers: Bytes) -> Bytes:
    """Validity codes of the raw values of rows, uint8, of the shape of ``raw`` (..., capacity); ``outliers`` (...,
    ceil(capacity / 8)) as in a row. GONE for absent entities."""
    flags = np.unpackbits(outliers, axis=-1, count=raw.shape[-1], bitorder="little") * np.uint8(validity.OUTLIER_FLAG)
    marks = (np.ascontiguousarray(raw).view("<u4") & 0xFF).astype(np.uint8)
    marks[(marks & validity.CODE_MASK) == validity.VALID] = validity.RANGE  # NaN is never valid, whatever its code
    return np.where(np.isnan(raw), marks, np.where(np.isfinite(raw), flags, np.uint8(validity.RANGE)))


def check(data: bytes) -> Head:
    """Header of a whole ring, for which ``decode`` is then sure to succeed. Raises FrameError."""
    head = unpack_head(data)
    shape = (head.columns, head.capacity, head.seeds, head.depth, head.names_size)
    if not all((head.columns, head.capacity, head.depth, head.seed_every, head.seeds)) or head.derived > head.columns:
        raise FrameError("shape", f"invalid shape {shape} of a ring")
    if places(*shape).size != len(data):
        raise FrameError(
            "shape", f"a ring of {head.columns} columns, {head.capacity} slots does not match {len(data)} bytes"
        )
    at = head.places.names
    split_names(data[at : at + head.names_size], head.columns)
    return head


def unpack_head(data: bytes) -> Head:
    """Header at the start of ``data``. Raises FrameError if it is invalid."""
    return Head._make(head_fields("ring of recent values", data, HEADER, MAGIC, VERSIONS))


def decode(data: bytes) -> Ring:
    """Ring in ``data``. Raises FrameError if it is invalid."""
    head = check(data)
    at, c, n = head.places, head.columns, head.capacity
    cut = Cutter(data, at.taus)
    taus = cut.take("<f8", c)
    names = split_names(data[at.names : at.names + head.names_size], c)
    slots = np.frombuffer(data, SLOT_DTYPE, n, at.slots)
    seeds = np.frombuffer(data, _seed_dtype(c, n), head.seeds, at.seeds)
    rows = np.frombuffer(data, row_dtype(c, n), head.depth, at.rows)
    return Ring(head, taus, names, slots, seeds["step"], seeds["means"], rows)


@lru_cache(256)
def row_dtype(columns: int, capacity: int) -> np.dtype[Any]:
    """Dtype of a row in numpy."""
    return np.dtype(
        {
            "names": ["step", "life", "wall", "monotonic", "raw", "outliers"],
            "formats": [
                "<u4", "<u4", "<f8", "<f8", ("<f4", (columns, capacity)), ("u1", (columns, outlier_bytes(capacity))),
            ],
            "offsets": [0, 4, 8, 16, 24, 24 + 4 * columns * capacity],
            "itemsize": places(columns, capacity, 1, 1, 0).row_size,
        }
    )  # fmt: skip


@lru_cache(256)
def _seed_dtype(columns: int, capacity: int) -> np.dtype[Any]:
    return np.dtype(
        {
            "names": ["step", "means"],
            "formats": ["<u8", ("<f4", (columns, capacity))],
            "offsets": [0, 8],
            "itemsize": places(columns, capacity, 1, 1, 0).seed_size,
        }
    )
