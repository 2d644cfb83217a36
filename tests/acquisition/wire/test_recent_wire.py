"""The ring of recent values: golden bytes, round trips, which rows count, and what is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.model import codes
from acquisition.wire.records import recent
from acquisition.wire.records.recent import GONE
from tests.support import FIXTURES
from tests.support.sections import ring

GOLDEN = FIXTURES / "frames" / "recent.bin"
OUTLIER = codes.VALID | codes.OUTLIER_FLAG


def made() -> bytes:
    """Two columns, three slots of which one is free, three rows of a depth of four, one seed."""
    return ring(
        ("cpu_ratio", "memory_ratio"),
        [(11, 1), (12, 2), (0, 0)],
        [
            (1, [[0.5, 0.0, 0.0], [0.25, 0.0, 0.0]], [[0, GONE, GONE], [OUTLIER, GONE, GONE]]),
            (2, [[0.75, 1.5, 0.0], [7.0, 0.125, 0.0]], [[0, 0, GONE], [codes.RANGE, OUTLIER, GONE]]),
            (4, 2.0, [[0, codes.MISSING, GONE]] * 2),
        ],
        seeds={1: [[0.5, np.nan, np.nan], [0.25, np.nan, np.nan]]},
        depth=4,
    )  # fmt: skip


def refusal(data: bytes) -> str:
    """Why ``data`` is refused, empty when it is not."""
    try:
        recent.decode(data).order()
    except FrameError as error:
        return error.reason
    return ""


def test_golden_bytes() -> None:
    assert made() == GOLDEN.read_bytes()
    assert (recent.HEADER.size, recent.ROW_HEADER.size, recent.SLOT.size) == (64, 24, 16)
    assert all(part % 8 == 0 for part in recent.unpack_head(made()).places)


def test_a_ring_reads_back() -> None:
    found = recent.decode(GOLDEN.read_bytes())
    assert (found.names, found.taus.tolist()) == (("cpu_ratio", "memory_ratio"), [5.0, 5.0])
    assert (found.slots["id"].tolist(), found.slots["first"].tolist()) == ([11, 12, 0], [1, 2, 0])
    assert (found.seed_steps.tolist(), found.seed_means[0, :, 0].tolist()) == ([1, 0, 0, 0, 0], [0.5, 0.25])
    rows = found.rows[found.order()]
    assert (rows["step"].tolist(), rows["life"].tolist(), rows["monotonic"].tolist()) == ([1, 2, 4], [5] * 3, [1, 2, 4])
    assert rows["raw"][:, 0, 0].tolist() == [0.5, 0.75, 2.0]
    marks = recent.codes_of(rows["raw"], rows["outliers"])
    assert marks[:, 0].tolist() == [[0, GONE, GONE], [0, 0, GONE], [0, codes.MISSING, GONE]]
    assert marks[:, 1].tolist() == [[OUTLIER, GONE, GONE], [codes.RANGE, OUTLIER, GONE], [0, codes.MISSING, GONE]]


def test_rows_that_count() -> None:
    def steps(*found: tuple[int, int]) -> list[int]:
        data = bytearray(ring(("cpu",), [(11, 1)], [(step, 1.0, 0) for step, _ in found], depth=4))
        head = recent.unpack_head(bytes(data))
        for step, life in found:
            at = head.row_at(step)
            data[at : at + 24] = recent.ROW_HEADER.pack(step, life, 0.0, 0.0)
        decoded = recent.decode(bytes(data))
        answer: list[int] = decoded.rows["step"][decoded.order()].tolist()
        return answer

    assert steps() == []
    assert steps((1, 5), (2, 5)) == [1, 2]
    assert steps((1, 5), (2, 5), (3, 5), (4, 5), (5, 5)) == [2, 3, 4, 5]
    assert steps((1, 5), (2, 5), (7, 5)) == [7]  # the others are of before the gap
    assert steps((1, 4), (2, 5), (3, 5)) == [2, 3]  # another life


def test_a_row_in_a_place_that_is_not_its_own_does_not_count() -> None:
    data = bytearray(ring(("cpu",), [(11, 1)], [(5, 1.0, 0)], depth=4))
    at = recent.unpack_head(bytes(data)).row_at(6)
    data[at : at + 24] = recent.ROW_HEADER.pack(400, 5, 0.0, 0.0)
    found = recent.decode(bytes(data))
    assert found.rows["step"][found.order()].tolist() == [5]


@given(
    st.integers(1, 4), st.integers(1, 20),
    st.lists(st.sampled_from([0, OUTLIER, *range(1, len(codes.NAMES)), GONE]), min_size=80, max_size=80),
)  # fmt: skip
def test_rows_round_trip(columns: int, capacity: int, marks: list[int]) -> None:
    codes_in = np.array(marks[: columns * capacity], np.uint8).reshape(columns, capacity)
    raw = np.random.default_rng(columns * capacity).normal(size=(columns, capacity)).astype("<f4")
    data = recent.encode_row(3, (7 << 32) | 9, 1.5, 2.5, raw, codes_in)
    found = np.frombuffer(data, recent.row_dtype(columns, capacity))[0]
    assert (found["step"], found["life"], found["wall"], found["monotonic"]) == (3, 9, 1.5, 2.5)
    assert np.array_equal(recent.codes_of(found["raw"], found["outliers"]), codes_in)
    usable = (codes_in & codes.CODE_MASK) == codes.VALID
    assert np.array_equal(found["raw"], np.where(usable, raw, np.nan), equal_nan=True)


def test_a_number_that_is_none_is_never_valid() -> None:
    raw = np.array([np.nan, np.inf, 1.0], "<f4")
    raw.view("<u4")[0] = recent.QUIET_NAN  # a NaN that calls itself valid
    assert recent.codes_of(raw, np.zeros(1, "u1")).tolist() == [codes.RANGE, codes.RANGE, codes.VALID]


@pytest.mark.parametrize("field", ["columns", "seeds", "capacity", "depth", "seed_every"])
def test_headers_that_contradict_themselves(field: str) -> None:
    data, head = made(), recent.unpack_head(made())
    for value in (0, 200):
        spoilt = recent.HEADER.pack(*head._replace(**{field: value})) + data[recent.HEADER.size :]
        assert refusal(spoilt) == ("" if (field, value) == ("seed_every", 200) else "shape")


def test_versions() -> None:
    data = made()
    found = [refusal(data[:4] + bytes((recent.VERSION + more,)) + data[5:]) for more in (1, 2)]
    assert (found, refusal(b"SPRR" + data[4:]), refusal(data[:63])) == (["newer", "version"], "magic", "short")


@given(st.integers(0, len(GOLDEN.read_bytes()) - 1), st.integers(0, 255))
def test_one_byte_more_or_less_or_other_never_crashes(at: int, value: int) -> None:
    data = GOLDEN.read_bytes()
    for spoilt in (data[:at], data + bytes((value,)), data[:at] + bytes((value,)) + data[at + 1 :]):
        assert refusal(spoilt) in ("", "short", "magic", "version", "newer", "shape", "names")


@given(st.binary(max_size=300))
def test_any_bytes_behind_the_magic(data: bytes) -> None:
    assert refusal(recent.MAGIC + bytes((recent.VERSION,)) + data) in ("", "short", "shape", "names")
