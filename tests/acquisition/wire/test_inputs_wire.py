"""The layout of decision inputs: golden bytes, round trips, and what is none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.snapshot.inputs import InputsTable, recent_of
from acquisition.wire import inputs as wire
from acquisition.wire import recent


def record(
    columns: int = 2, entities: int = 3, derived: int = 1, plateau: int = 4, version: int = wire.VERSION
) -> bytes:
    names = tuple(f"metric_{column}" for column in range(columns))
    head = wire.HEADER.pack(
        wire.MAGIC, version, columns, derived, 0, entities, 30, 120, len(wire.pack_names(names)), 9, 7, 5, 1.0, 11,
        12, 13, 14.5, 15.5, 16, 3, 4, 5, plateau, b"",
    )  # fmt: skip
    planes = np.arange(wire.plane_count(plateau) * columns * entities, dtype="<f4")
    return b"".join((
        head,
        np.arange(1, entities + 1, dtype="<u8").tobytes(),
        np.full(entities, 1e9).tobytes(),
        np.full(entities, 8, "<u2").tobytes(),
        np.full(columns, 0.5, "<f4").tobytes(),
        np.full(columns, 0.25, "<f4").tobytes(),
        planes.tobytes(),
        np.full(4 * derived * entities, 0.125, "<f4").tobytes(),
        np.full(derived * entities, 3, "u1").tobytes(),
        wire.pack_names(names),
    ))  # fmt: skip


def row(step: int = 3, layout: int = 1) -> bytes:
    head = recent.ROW_HEADER.pack(recent.ROW_MAGIC, recent.VERSION, 1, 0, 2, 0, 5, step, layout, 100 + step, 7.5)
    return head + np.array([0.5, 0.25, 1.5, 1.25], "<f4").tobytes() + bytes((0, 3))


def refusal(decode: Callable[[bytes], object], data: bytes) -> str:
    """Why ``data`` is refused, empty when it is not."""
    try:
        decode(data)
    except FrameError as error:
        return error.reason
    return ""


def test_golden_bytes() -> None:
    assert record().startswith(b"SPIN\x02\x02\x01\x00\x03\x00\x00\x00\x1e\x00\x78\x00")
    assert record()[104:110] == b"\x05\x00\x04\x00\x00\x00"
    assert (len(record()), wire.HEADER.size, recent.ROW_HEADER.size) == (555, 128, 56)
    assert hashlib.sha256(record()).hexdigest()[:16] == "e08129a3e49ad2a3"
    first = record(plateau=0, version=1)  # before there was a plateau
    assert (len(first), hashlib.sha256(first).hexdigest()[:16]) == (507, "34fcbecb41c8a2cc")
    assert (
        row().hex()
        == "535052520101000002000000000000000500000000000000030000000000000001000000000000006700000000000000"
        "0000000000001e400000003f0000803e0000c03f0000a03f0003"
    )
    assert (
        recent.encode_layout(b"\1\0\0\0\0\0\0\0", ("a", "b")).hex()
        == "5350524c01000200010000000100000000000000610a620a"
    )


def test_a_record_reads_back() -> None:
    found = wire.decode(record())
    assert (found.head.step, found.head.first, found.head.layout, found.head.counted) == (16, 3, 4, 5)
    assert found.names == ("metric_0", "metric_1")
    assert found.plane("median").tolist() == [[12.0, 13.0, 14.0], [15.0, 16.0, 17.0]]
    assert (found.derived.shape, found.codes.tolist()) == ((4, 1, 3), [[3, 3, 3]])
    assert (found.ids.tolist(), found.seen.tolist()) == ([1, 2, 3], [8, 8, 8])


def test_a_plateau_is_what_the_header_says() -> None:
    found = wire.decode(record())
    assert found.plane("lowest").tolist() == [[60.0, 61.0, 62.0], [63.0, 64.0, 65.0]]
    for version in wire.VERSIONS:
        data = record(plateau=0, version=version)
        without = wire.decode(data)
        assert without.plane("above").tolist() == [[54.0, 55.0, 56.0], [57.0, 58.0, 59.0]]
        with pytest.raises(KeyError):
            without.plane("lowest")
        one = InputsTable(without.head, data).inputs(0, "metric_0")
        assert one is not None
        assert (one.plateau, one.lowest, one.highest) == (0, None, None)
    spoilt = record(plateau=31), record(version=wire.VERSION + 1), record(version=wire.VERSION + 2)
    assert [refusal(wire.decode, data) for data in spoilt] == ["shape", "newer", "version"]


def test_rows_and_layouts_read_back() -> None:
    found = recent.decode_row(row())
    assert (found.step, found.tick, found.raw.tolist(), found.mean.tolist()) == (3, 103, [[0.5, 0.25]], [[1.5, 1.25]])
    assert found.codes.tolist() == [[0, 3]]
    layout = recent.decode_layout(recent.encode_layout(np.array([5, 6], "<u8").tobytes(), ("cpu",)))
    assert (layout.ids.tolist(), layout.names) == ([5, 6], ("cpu",))
    assert recent.layout_of(recent.layout_field(12)) == 12
    assert [recent.layout_of(field) for field in (b"12", b"l", b"lx", b"l" + b"9" * 30)] == [None] * 4


@pytest.mark.parametrize(("columns", "entities", "derived"), [(1, 1, 1), (3, 4, 2), (2, 5, 0)])
def test_single_rows_are_what_the_whole_record_says(columns: int, entities: int, derived: int) -> None:
    data = record(columns, entities, derived)
    whole, table = wire.decode(data), InputsTable(wire.check(data), data)
    for column, name in enumerate(whole.names):
        for row in range(entities):
            found = table.inputs(row, name)
            assert found is not None
            planes = [float(whole.plane(plane)[column, row]) for plane in ("cusum", "median", "q3")]
            assert [found.cusum, found.median, found.q3] == planes
            assert (found.valid, found.above) == (whole.plane("valid")[column, row], whole.plane("above")[column, row])
            assert (found.threshold, found.since, found.warming) == (0.5, 1e9, True)
            extremes = whole.plane("lowest")[column, row], whole.plane("highest")[column, row]
            assert (found.plateau, found.lowest, found.highest) == (4, *extremes)
            reading = table.derived(row, name)
            assert (reading is not None) == (column >= columns - derived)
            if reading is not None:
                assert reading.mean == whole.plane("mean")[column, row]
                assert (reading.last, reading.trend, reading.code) == (0.125, 0.125, 3)
    assert table.inputs(entities, whole.names[0]) is None
    assert table.inputs(0, "unknown") is None


def test_recent_values_pass_over_what_is_old_or_damaged() -> None:
    ids = np.array([5, 6], "<u8").tobytes()
    table = recent_of({
        b"l1": recent.encode_layout(ids, ("cpu",)), b"3": row(3), b"4": row(200), b"5": b"SPRR", b"l9": b"?",
        b"6": row(201, 9),
    })  # fmt: skip
    assert len(table) == 2
    assert [(one.tick, one.raw, one.code) for one in table.series(6, "cpu")] == [(300, 0.25, 3)]
    assert table.valid_values(5, "cpu") == ([200], [0.5], [1.5])
    assert table.valid_values(5, "cpu", 200, 200) == ([200], [0.5], [1.5])
    assert table.valid_values(5, "cpu", 201) == table.valid_values(5, "cpu", last=199) == ([], [], [])
    assert table.series(7, "cpu") == table.series(5, "memory") == []


@given(st.integers(0, 554), st.integers(0, 255))
def test_one_byte_more_or_less_or_other_never_crashes(at: int, value: int) -> None:
    data = record()
    for spoilt in (data[:at], data + bytes((value,)), data[:at] + bytes((value,)) + data[at + 1 :]):
        for decode in (wire.decode, recent.decode_row, recent.decode_layout):
            assert refusal(decode, spoilt) in ("", "short", "magic", "version", "newer", "shape", "names")


@given(st.binary(max_size=300))
def test_any_bytes_behind_the_magic(data: bytes) -> None:
    for magic, decode in (
        (wire.MAGIC, wire.decode), (recent.ROW_MAGIC, recent.decode_row), (recent.LAYOUT_MAGIC, recent.decode_layout),
    ):  # fmt: skip
        assert refusal(decode, magic + b"\1" + data) in ("", "short", "shape", "names")


@pytest.mark.parametrize(("columns", "entities", "derived"), [(1, 0, 0), (1, 1, 1), (3, 2, 0)])
def test_shapes(columns: int, entities: int, derived: int) -> None:
    assert wire.decode(record(columns, entities, derived)).planes.shape == (12, columns, entities)
