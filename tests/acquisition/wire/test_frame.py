"""Frames on the wire: golden bytes, round trip, and every way in which bytes are no frame."""

from __future__ import annotations

import math
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import EXIT_DATA, FrameError
from acquisition.wire import frame
from acquisition.wire.frame import HEADER_FIELDS, HEADER_SIZE, KIND_END, KIND_SAMPLES, KIND_TABLE, KIND_TOMBSTONE, Frame
from tests.support import FIXTURES

GOLDEN = FIXTURES / "frames"

SAMPLES = Frame(
    kind=KIND_SAMPLES,
    schema=0x11223344,
    host=0xABCDEF0123456789,
    resource_set=0x55667788,
    entities=2,
    metrics=3,
    interval=1.0,
    epoch=1_700_000_000_123_456_789,
    sequence=42,
    floor=7,
    made=246,
    tick=1_700_000_001,
    wall=1_700_000_001.25,
    monotonic=3600.5,
    ids=struct.pack("<2Q", 1, 2**64 - 1),
    values=struct.pack("<6f", 0.0, 0.5, 1.0, -1.0, 1e30, math.nan),
)
FRAMES = {
    "samples": SAMPLES,
    "samples-with-codes": SAMPLES._replace(codes=bytes([0, 0, 0, 3, 0x80, 1])),
    "no-entities": SAMPLES._replace(entities=0, ids=b"", values=b""),
    "table": SAMPLES._replace(kind=KIND_TABLE, entities=0, metrics=0, ids=b"", values=b"", payload=b'{"host":"alpha"}'),
    "tombstone": SAMPLES._replace(kind=KIND_TOMBSTONE, entities=0, metrics=0, ids=b"", values=b"", payload=b"shape"),
    "end": SAMPLES._replace(kind=KIND_END, entities=0, metrics=0, ids=b"", values=b""),
}
DATA = frame.encode(SAMPLES)


def sealed(data: bytes) -> bytes:
    """The same bytes with the CRC that they should have."""
    return data[:4] + struct.pack("<I", zlib.crc32(data[8:])) + data[8:]


def changed(field: str, value: object, data: bytes = DATA) -> bytes:
    """A frame with one header field changed and a right CRC."""
    at = 0
    for name, code in HEADER_FIELDS:
        if name == field:
            return sealed(data[:at] + struct.pack("<" + code, value) + data[at + struct.calcsize("<" + code) :])
        at += struct.calcsize("<" + code)
    raise KeyError(field)


@pytest.mark.parametrize("name", FRAMES)
def test_golden_bytes(name: str) -> None:
    """What was written once must stay readable: these files are never recreated within a version."""
    golden = (GOLDEN / f"{name}.bin").read_bytes()
    assert frame.encode(FRAMES[name]) == golden
    assert frame.encode(frame.decode(golden)) == golden


def test_header_is_as_long_as_documented() -> None:
    assert HEADER_SIZE == 96


def frames() -> st.SearchStrategy[Frame]:
    u64 = st.integers(0, 2**64 - 1)
    finite = st.floats(allow_nan=False, allow_infinity=False)

    @st.composite
    def build(draw: st.DrawFn) -> Frame:
        entities, metrics = draw(st.integers(0, 5)), draw(st.integers(0, 5))
        cells = entities * metrics
        sequence = draw(st.integers(1, frame.MOST_COUNTED - 1))
        has_codes = cells and draw(st.booleans())
        return Frame(
            KIND_SAMPLES,
            draw(st.integers(0, 2**32 - 1)),
            draw(u64),
            draw(st.integers(0, 2**32 - 1)),
            entities,
            metrics,
            draw(st.floats(2**-20, 2.0**20, width=32)),
            draw(u64),
            sequence,
            draw(st.integers(1, sequence)),
            draw(st.integers(0, frame.MOST_COUNTED - 1)),
            draw(st.integers(-(2**63), 2**63 - 1)),
            draw(finite),
            draw(finite),
            draw(st.binary(min_size=8 * entities, max_size=8 * entities)),
            draw(st.binary(min_size=4 * cells, max_size=4 * cells)),
            draw(st.binary(min_size=cells, max_size=cells)) if has_codes else b"",
        )

    return build()


@given(frames())
def test_round_trip(content: Frame) -> None:
    data = frame.encode(content)
    assert frame.decode(data) == content
    assert len(data) == HEADER_SIZE + 8 * content.entities + (4 + bool(content.codes)) * content.samples


@given(frames(), st.data())
def test_new_floor_changes_nothing_else(content: Frame, data: st.DataObject) -> None:
    floor = data.draw(st.integers(1, content.sequence))
    assert frame.decode(frame.with_floor(frame.encode(content), floor)) == content._replace(floor=floor)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_in_order(data: bytes) -> None:
    with pytest.raises(FrameError):
        frame.decode(data)


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_any_changed_byte_is_seen(at: int, difference: int) -> None:
    data = bytearray(DATA)
    data[at] ^= difference
    with pytest.raises(FrameError):
        frame.decode(bytes(data))


@given(st.binary(min_size=HEADER_SIZE - 8, max_size=400))
def test_hostile_header_with_a_right_crc(rest: bytes) -> None:
    """A writer that means harm can compute a CRC: nothing but FrameError may come of it."""
    data = sealed(frame.MAGIC + bytes(4) + bytes([frame.VERSION, 1, 0, 0]) + rest[4:])
    try:
        decoded = frame.decode(data)
    except FrameError:
        return
    assert len(decoded.ids) == 8 * decoded.entities
    assert len(decoded.values) == 4 * decoded.samples


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "short"),
        (DATA[: HEADER_SIZE - 1], "short"),
        (b"SPL?" + DATA[4:], "magic"),
        (changed("version", 2), "version"),
        (changed("version", 0), "version"),
        (DATA[:-1], "crc"),
        (DATA + b"\0", "crc"),
        (changed("kind", 5), "kind"),
        (changed("flags", 2), "flags"),
        (changed("entities", 3), "shape"),
        (changed("metrics", 2), "shape"),
        (changed("entities", 2**32 - 1), "shape"),
        (changed("flags", 1), "shape"),
        (changed("floor", 43), "shape"),
        (changed("floor", 0), "shape"),
        (changed("sequence", 0), "shape"),
        (changed("interval", 0.0), "shape"),
        (changed("interval", math.nan), "shape"),
        (changed("interval", math.inf), "shape"),
        (changed("wall", math.nan), "shape"),
        (changed("monotonic", math.inf), "shape"),
        (changed("kind", KIND_TABLE), "shape"),
        (changed("kind", KIND_TOMBSTONE), "shape"),
        (changed("kind", KIND_END), "shape"),
    ],
)
def test_every_broken_promise_has_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(FrameError) as caught:
        frame.decode(data)
    assert caught.value.reason == reason
    assert caught.value.exit_code == EXIT_DATA
    assert str(caught.value)


@pytest.mark.parametrize(
    "parts", [{"ids": b""}, {"values": bytes(4)}, {"codes": b"\0"}, {"entities": 3}, {"metrics": 1}]
)
def test_parts_that_do_not_fit_are_not_encoded(parts: dict[str, object]) -> None:
    with pytest.raises(FrameError) as caught:
        frame.encode(SAMPLES._replace(**parts))  # type: ignore[arg-type]
    assert caught.value.reason == "shape"
