"""Frame: all samples of one resource set at one tick, as one byte string.

Layout (little-endian, no padding)::

    header   96 bytes, see HEADER_FIELDS
    ids      entities x uint64        identities of the rows
    values   entities x metrics x float32, row-major; NaN if there is no value
    codes    entities x metrics x uint8, only with FLAG_CODES (something is invalid)

Frames of the other kinds have zero entities and metrics. A table frame (KIND_TABLE) has a JSON payload
(``acquisition.wire.table``). A tombstone (KIND_TOMBSTONE) replaces a frame that was given up: its
payload is the reason, in ASCII, and its ``made`` includes the samples of that frame, which are lost. An end
frame (KIND_END) means that the probe stopped in order. The CRC-32 covers everything after itself. Readers accept
VERSION and VERSION - 1 (there is no older one yet). ``tests/acquisition/wire/test_frame.py``
contains golden bytes and a round-trip property.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from acquisition.errors import FrameError

MAGIC = b"SPLS"
VERSION = 1
OLDEST_VERSION = 1
KIND_SAMPLES = 1
KIND_TABLE = 2
KIND_TOMBSTONE = 3
KIND_END = 4
KINDS = (KIND_SAMPLES, KIND_TABLE, KIND_TOMBSTONE, KIND_END)
FLAG_CODES = 1
KNOWN_FLAGS = FLAG_CODES
#: The probe sheds frames now: more is made than the pipeline takes.
HINT_SHEDS = 1
#: A filter had applied every frame before ``floor``: missing ones were forgotten by the shards, not lost.
HINT_APPLIED = 2

#: name, struct code. The filter builds its numpy dtype from the same rows.
HEADER_FIELDS: tuple[tuple[str, str], ...] = (
    ("magic", "4s"),
    ("crc", "I"),  # CRC-32 of all bytes from offset 8 on
    ("version", "B"),
    ("kind", "B"),
    ("flags", "H"),
    ("schema", "I"),  # acquisition.model.metric.schema_hash
    ("host", "Q"),  # acquisition.model.identity.host_id
    ("resource_set", "I"),  # acquisition.model.metric.resource_set_id
    ("metrics", "H"),
    ("hints", "H"),  # HINT_SHEDS, HINT_APPLIED; readers ignore unknown bits
    ("entities", "I"),
    ("interval", "f"),  # seconds between two ticks of this resource set
    ("epoch", "Q"),  # a new one whenever the numbering restarts
    ("sequence", "Q"),  # 1, 2, 3 … within (host, resource set, epoch)
    ("floor", "Q"),  # the oldest sequence number still held by the probe
    ("made", "Q"),  # samples made in this epoch before this frame
    ("tick", "q"),  # floor(wall / interval): the interval of wall-clock time
    ("wall", "d"),  # seconds since 1970 when sampling ended
    ("monotonic", "d"),  # seconds of CLOCK_MONOTONIC at the same moment
)
HEADER = struct.Struct("<" + "".join(code for _, code in HEADER_FIELDS))
HEADER_SIZE = HEADER.size
CRC_FROM = 8
_CRC = struct.Struct("<I")
_AFTER_CRC = struct.Struct("<" + "".join(code for _, code in HEADER_FIELDS[2:]))
_HINTS_OFFSET = struct.calcsize("<4sIBBHIQIH")
_FLOOR_OFFSET = struct.calcsize("<4sIBBHIQIHHIfQQ")
MOST_CELLS = 1 << 24
#: Larger counts and numbers are invalid: sums of very many fit 64 bits, and JSON's readers agree on each (RFC 7493).
MOST_COUNTED = 1 << 53
_INFINITY = float("inf")


class Samples(NamedTuple):
    """All samples of one resource set at one tick, not yet numbered as a frame.

    ``resource_set`` and ``schema`` as in ``acquisition.model.metric``; ``ids`` are ``entities`` uint64, ``values``
    ``entities`` x ``metrics`` float32, row-major, ``codes`` as many bytes, or none if every sample is valid;
    all little-endian. ``interval``, ``wall`` and ``monotonic`` in seconds, as in HEADER_FIELDS.
    """

    resource_set: int
    schema: int
    entities: int
    metrics: int
    interval: float
    tick: int
    wall: float
    monotonic: float
    ids: bytes
    values: bytes
    codes: bytes = b""


class Frame(NamedTuple):
    """A decoded frame; ``ids``, ``values`` and ``codes`` (or ``payload``) are raw bytes.

    ``codes`` is empty if every sample is valid.
    """

    kind: int
    schema: int
    host: int
    resource_set: int
    entities: int
    metrics: int
    interval: float
    epoch: int
    sequence: int
    floor: int
    made: int
    tick: int
    wall: float
    monotonic: float
    ids: bytes = b""
    values: bytes = b""
    codes: bytes = b""
    payload: bytes = b""
    hints: int = 0  #: HINT_SHEDS, HINT_APPLIED

    @property
    def samples(self) -> int:
        """Number of samples in the frame: entities x metrics."""
        return self.entities * self.metrics


def encode(frame: Frame) -> bytes:
    """Bytes of a frame. Raises FrameError("shape") if the parts do not fit together."""
    return pack(*frame)


def pack(
    kind: int,
    schema: int,
    host: int,
    resource_set: int,
    entities: int,
    metrics: int,
    interval: float,
    epoch: int,
    sequence: int,
    floor: int,
    made: int,
    tick: int,
    wall: float,
    monotonic: float,
    ids: bytes = b"",
    values: bytes = b"",
    codes: bytes = b"",
    payload: bytes = b"",
    hints: int = 0,
) -> bytes:
    """``encode`` for a writer, called for every frame: an intermediate Frame would cost it half as much again."""
    cells = entities * metrics
    if len(ids) != entities * 8 or len(values) != cells * 4 or (codes and len(codes) != cells):
        raise FrameError("shape", f"size {entities} x {metrics} does not match its parts")
    head = _AFTER_CRC.pack(
        VERSION,
        kind,
        FLAG_CODES if codes else 0,
        schema,
        host,
        resource_set,
        metrics,
        hints,
        entities,
        interval,
        epoch,
        sequence,
        floor,
        made,
        tick,
        wall,
        monotonic,
    )
    crc = zlib.crc32(values, zlib.crc32(ids, zlib.crc32(head)))
    if codes or payload:
        crc = zlib.crc32(payload, zlib.crc32(codes, crc))
    return b"".join((MAGIC, _CRC.pack(crc), head, ids, values, codes, payload))


def decode(data: bytes) -> Frame:
    """Frame in ``data``. Raises FrameError, with the broken promise as ``reason``."""
    if len(data) < HEADER_SIZE:
        raise FrameError("short", f"frame too short: {len(data)} bytes, the header needs {HEADER_SIZE}")
    (
        magic,
        crc,
        version,
        kind,
        flags,
        schema,
        host,
        resource_set,
        metrics,
        hints,
        entities,
        interval,
        epoch,
        sequence,
        floor,
        made,
        tick,
        wall,
        monotonic,
    ) = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise FrameError("magic", f"starts with {magic!r} instead of {MAGIC!r}")
    if not OLDEST_VERSION <= version <= VERSION:
        raise FrameError("version", f"version {version} is not supported (supported: {OLDEST_VERSION} to {VERSION})")
    if crc != zlib.crc32(memoryview(data)[CRC_FROM:]):
        raise FrameError("crc", "checksum mismatch: truncated or altered")
    if kind not in KINDS:
        raise FrameError("kind", f"unknown kind {kind}")
    if flags & ~KNOWN_FLAGS:
        raise FrameError("flags", f"unknown flags {flags:#x}")
    if not (MOST_COUNTED > sequence >= floor >= 1 and 0 < interval < _INFINITY and made < MOST_COUNTED):
        raise FrameError("shape", f"sequence {sequence}, floor {floor}, interval {interval}, {made} samples made")
    if not (-_INFINITY < wall < _INFINITY and -_INFINITY < monotonic < _INFINITY):
        raise FrameError("shape", f"invalid times {wall} (wall clock), {monotonic} (monotonic clock)")
    fields = (schema, host, resource_set, entities, metrics, interval, epoch, sequence, floor, made)
    if kind != KIND_SAMPLES:
        if entities or metrics or flags:
            raise FrameError("shape", f"a frame of kind {kind} has no samples")
        return Frame(kind, *fields, tick, wall, monotonic, payload=data[HEADER_SIZE:], hints=hints)
    cells = entities * metrics
    values_at = HEADER_SIZE + entities * 8
    codes_at = values_at + cells * 4
    end = codes_at + (cells if flags & FLAG_CODES else 0)
    if cells > MOST_CELLS or end != len(data):
        raise FrameError("shape", f"{entities} x {metrics} needs {end} bytes, got {len(data)}")
    return Frame(
        kind,
        *fields,
        tick,
        wall,
        monotonic,
        ids=data[HEADER_SIZE:values_at],
        values=data[values_at:codes_at],
        codes=data[codes_at:end],
        hints=hints,
    )


def is_whole(data: bytes) -> bool:
    """Whether the checksum of an encoded frame still matches."""
    if len(data) < HEADER_SIZE:
        return False
    crc: int = _CRC.unpack_from(data, 4)[0]
    return crc == zlib.crc32(memoryview(data)[CRC_FROM:])


def with_floor(data: bytes, floor: int, hints: int = 0) -> bytes:
    """The same frame with another ``floor`` and ``hints``, for resending by a probe."""
    copy = bytearray(data)
    struct.pack_into("<Q", copy, _FLOOR_OFFSET, floor)
    struct.pack_into("<H", copy, _HINTS_OFFSET, hints)
    _seal(copy)
    return bytes(copy)


def _seal(data: bytearray) -> None:
    struct.pack_into("<I", data, 4, zlib.crc32(memoryview(data)[CRC_FROM:]))
