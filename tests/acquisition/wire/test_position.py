"""Position records: golden bytes, round trip, and bytes that are none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.snapshot.reading.positions import positions_of
from acquisition.wire import position
from acquisition.wire.position import MOST_GAPS, WANT_TABLE, Position
from tests.support import FIXTURES

GOLDEN = FIXTURES / "frames" / "position.bin"
POSITION = Position(2**60, 12, -3, 1_700_000_000.5, 0.5, WANT_TABLE, 1, 2, 3, 4, 5, 6, 7, 8, 7, -4, 3)


def test_golden_bytes() -> None:
    assert position.encode(POSITION) == GOLDEN.read_bytes()
    assert position.decode(GOLDEN.read_bytes()) == POSITION


@pytest.mark.parametrize("more", [b"", bytes(8)])
def test_a_position_of_the_next_version_is_told_from_damage(more: bytes) -> None:
    with pytest.raises(FrameError, match="position version 3 is not supported") as caught:
        position.decode(bytes((position.VERSION + 1,)) + GOLDEN.read_bytes()[1:] + more)
    assert caught.value.reason == "newer"


u64 = st.integers(0, 2**64 - 1)
count = st.integers(0, position.MOST - 1)


@given(
    st.builds(
        Position, u64, count, st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False), st.floats(0, width=32, allow_infinity=False),
        st.integers(0, 255), *(count for _ in range(9)), st.integers(-(2**63), 2**63 - 1),
        st.integers(0, MOST_GAPS),
    )
)  # fmt: skip
def test_round_trip(content: Position) -> None:
    assert position.decode(position.encode(content)) == content


@pytest.mark.parametrize("change", [
    {"sequence": position.MOST}, *({name: 2**64 - 1} for name in Position._fields[6:15]),
    {"wall": float("nan")}, {"wall": float("inf")}, {"interval": float("inf")}, {"interval": -1.0},
])  # fmt: skip
def test_a_position_that_nobody_can_count_on_from(change: dict[str, Any]) -> None:
    """The arrays of positions see the same."""
    data = position.encode(POSITION._replace(**change))
    with pytest.raises(FrameError, match="invalid position"):
        position.decode(data)
    assert positions_of([data, position.encode(POSITION)])[1].tolist() == [False, True]


@pytest.mark.parametrize("data", [b"", b"\1", bytes(position.POSITION.size), position.encode(POSITION) + b"\0"])
def test_bytes_that_are_no_position(data: bytes) -> None:
    with pytest.raises(FrameError) as caught:
        position.decode(data)
    assert caught.value.reason == "payload"
