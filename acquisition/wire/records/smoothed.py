"""Smoothed record: the filter's state of one resource set at one tick.

Layout (little-endian)::

    header      96 bytes, see HEADER_FIELDS
    inputs      inputs_size bytes, a multiple of 8: the section of decision inputs (``records.inputs``), or none
    ids         entities x uint64
    planes      planes x entities x metrics x float32, in the order of ``plane_ids`` (``records.planes``)
    exceptions  count x (index uint32, code uint32, age float32): the samples
                invalid at this tick, with their code and the seconds of CLOCK_MONOTONIC
                since their last valid sample (infinite if there never was one)

A record is both the data for readers and all that the filter needs to continue after a
restart. A mean of NaN is not initialized yet: there has been no valid sample.

Readers accept VERSIONS; the record format determines which is written (``acquisition.wire.records.record_format``).
A damaged section of decision inputs does not damage the record: ``check`` leaves it to the reader of that section.
``tests/acquisition/wire/test_smoothed.py`` contains golden bytes of each.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition import compiled
from acquisition.errors import FrameError
from acquisition.wire.records import planes, record_format
from acquisition.wire.records.inputs import head_fields
from acquisition.wire.records.planes import Plane

MAGIC = b"SPSM"
VERSIONS = record_format.known("smoothed")  #: supported by readers
VERSION = VERSIONS[-1]
MAX_PLANES = 8

HEADER_FIELDS: tuple[tuple[str, str], ...] = (
    ("magic", "4s"),
    ("version", "B"),
    ("plane_count", "B"),
    ("metrics", "H"),
    ("entities", "I"),
    ("exceptions", "I"),
    ("host", "Q"),
    ("resource_set", "I"),
    ("schema", "I"),
    ("interval", "f"),
    ("inputs_size", "I"),
    ("plane_ids", "8s"),  # one byte per plane, zero padded
    ("epoch", "Q"),
    ("sequence", "Q"),
    ("tick", "q"),
    ("wall", "d"),
    ("monotonic", "d"),
    ("filtered", "d"),  # wall clock of the filter when it made the record
)
HEADER = struct.Struct("<" + "".join(code for _, code in HEADER_FIELDS))
HEADER_SIZE = HEADER.size
#: From a header: plane_count, metrics, entities, inputs_size, plane_ids.
_GEOMETRY = struct.Struct("<5xBHI24xI8s")

EXCEPTION = np.dtype([("index", "<u4"), ("code", "<u4"), ("age", "<f4")])
_EXCEPTION_SIZE = EXCEPTION.itemsize

Floats = npt.NDArray[np.float32]


class SmoothedRecord(NamedTuple):
    """A decoded record; arrays are read-only views into the bytes it came from.

    ``ids`` uint64 (n,), ``planes`` name -> float32 (n, m), ``exceptions`` EXCEPTION (k,)
    with ``index`` = row * m + column.
    """

    host: int
    resource_set: int
    schema: int
    interval: float
    epoch: int
    sequence: int
    tick: int
    wall: float
    monotonic: float
    filtered: float
    ids: npt.NDArray[np.uint64]
    planes: dict[str, Floats]
    exceptions: npt.NDArray[np.void]

    def codes(self) -> npt.NDArray[np.uint8]:
        """Validity codes, uint8 (n, m)."""
        shape = next(iter(self.planes.values())).shape
        flat = np.zeros(shape[0] * shape[1], np.uint8)
        flat[self.exceptions["index"]] = self.exceptions["code"]
        return flat.reshape(shape)

    def ages(self) -> Floats:
        """Seconds from each sample's last valid value to this tick, float32 (n, m); 0 if valid now."""
        shape = next(iter(self.planes.values())).shape
        flat = np.zeros(shape[0] * shape[1], np.float32)
        flat[self.exceptions["index"]] = self.exceptions["age"]
        return flat.reshape(shape)


class Head(NamedTuple):
    """The header of a record, in wire order."""

    magic: bytes
    version: int
    plane_count: int
    metrics: int
    entities: int
    exceptions: int
    host: int
    resource_set: int
    schema: int
    interval: float
    inputs_size: int
    plane_ids: bytes
    epoch: int
    sequence: int
    tick: int
    wall: float
    monotonic: float
    filtered: float

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Planes in their order in the record."""
        return _planes_of(self.plane_ids[: self.plane_count])

    @property
    def extra_planes(self) -> tuple[Plane, ...]:
        """Planes that do not come with shardpulse."""
        return _extra_planes_of(self.plane_ids[: self.plane_count])

    @property
    def ids_at(self) -> int:
        """Offset of the ids: after header and decision inputs."""
        return HEADER_SIZE + self.inputs_size

    @property
    def planes_at(self) -> int:
        """Offset of the planes: after the ids."""
        return HEADER_SIZE + self.inputs_size + 8 * self.entities

    @property
    def exceptions_at(self) -> int:
        """Offset of the exceptions."""
        return self.planes_at + 4 * self.entities * self.metrics * self.plane_count

    @property
    def size(self) -> int:
        """Size of the whole record in bytes."""
        return self.exceptions_at + EXCEPTION.itemsize * self.exceptions


def unpack_head(data: bytes) -> Head:
    """Header at the start of ``data``, which may be truncated. Raises FrameError if it is invalid."""
    return Head._make(head_fields("smoothed record", data, HEADER, MAGIC, VERSIONS))


def check(data: bytes) -> Head:
    """Header of a whole record, for which ``decode`` is then sure to succeed; builds no arrays.

    Raises FrameError.
    """
    head = unpack_head(data)
    n, m, count, k = head.entities, head.metrics, head.plane_count, head.exceptions
    exceptions_at = head.exceptions_at
    if not 1 <= count <= MAX_PLANES or head.inputs_size % 8 or exceptions_at + _EXCEPTION_SIZE * k != len(data):
        raise FrameError("shape", f"{count} planes of {n} x {m} and {k} exceptions do not match {len(data)} bytes")
    if k and int(np.frombuffer(data, EXCEPTION, k, exceptions_at)["index"].max()) >= n * m:
        raise FrameError("shape", "exception outside the matrix")
    return head


def section(data: bytes, head: Head) -> memoryview:
    """Raw section of decision inputs of a checked record; empty if absent."""
    return memoryview(data)[HEADER_SIZE : head.ids_at]


def cube(data: bytes) -> tuple[Floats, dict[str, int]]:
    """All planes of a checked record, float32 (planes, n, m), a view; and the place of each by name."""
    count, metrics, entities, inputs_size, plane_ids = _GEOMETRY.unpack_from(data)
    flat = np.frombuffer(data, "<f4", count * entities * metrics, HEADER_SIZE + inputs_size + 8 * entities)
    return flat.reshape(count, entities, metrics), _index_of(plane_ids[:count])


def decode(data: bytes, head: Head | None = None) -> SmoothedRecord:
    """Record in ``data``; ``head`` is the result of ``check``, if it was called. Raises FrameError if it is
    invalid."""
    if head is None:
        head = check(data)
    planes, index = cube(data)
    return SmoothedRecord(
        head.host,
        head.resource_set,
        head.schema,
        head.interval,
        head.epoch,
        head.sequence,
        head.tick,
        head.wall,
        head.monotonic,
        head.filtered,
        np.frombuffer(data, "<u8", head.entities, head.ids_at),
        {name: planes[place] for name, place in index.items()},
        np.frombuffer(data, EXCEPTION, head.exceptions, head.exceptions_at),
    )


def in_c() -> dict[str, object]:
    """Values shared with acquisition/wire/smoothed_header.h (``acquisition.compiled.agree``)."""
    shared = (
        "version", "plane_count", "metrics", "entities", "exceptions", "schema", "interval", "inputs_size", "epoch",
        "sequence", "tick", "wall", "monotonic", "filtered",
    )  # fmt: skip
    places = compiled.offsets(HEADER_FIELDS)
    return {
        "SMOOTHED_MAGIC": MAGIC,
        "HEADER": HEADER_SIZE,
        "EXCEPTION_SIZE": EXCEPTION.itemsize,
        "MAX_PLANES": MAX_PLANES,
        **{f"{name.upper()}_AT": places[name] for name in shared},
    }


@lru_cache(64)
def _planes_of(plane_ids: bytes) -> tuple[Plane, ...]:
    return tuple(planes.by_number(number) for number in plane_ids)


@lru_cache(64)
def _names_of(plane_ids: bytes) -> tuple[str, ...]:
    return tuple(plane.name for plane in _planes_of(plane_ids))


@lru_cache(64)
def _index_of(plane_ids: bytes) -> dict[str, int]:
    return {name: place for place, name in enumerate(_names_of(plane_ids))}


@lru_cache(64)
def _extra_planes_of(plane_ids: bytes) -> tuple[Plane, ...]:
    return tuple(plane for plane in _planes_of(plane_ids) if plane not in planes.OWN)
