"""The archive's books of a partition: golden bytes, round trips, what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.wire import archived
from acquisition.wire.archived import Archived, unread

ROW = Archived(2**64 - 1, 7, 5, 40, 36, 30, 2, 4)
numbers = st.integers(0, 2**64 - 1)
rows = st.builds(Archived, numbers, st.integers(0, 2**32 - 1), *[numbers] * 6)


def test_golden_bytes() -> None:
    assert archived.encode([ROW]).hex() == (
        "01ffffffffffffffff0700000005000000000000002800000000000000"
        "24000000000000001e0000000000000002000000000000000400000000000000"
    )
    assert archived.encode([]) == b"\x01"
    (found,) = archived.decode(archived.encode([ROW._replace(made=1 << 70, gap=-1)]))
    assert (found.made, found.gap) == (2**64 - 1, 0)


@given(st.lists(rows, max_size=5))
def test_round_trips(wanted: list[Archived]) -> None:
    assert archived.decode(archived.encode(wanted)) == wanted


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x01x", archived.encode([ROW])[:-1], b"garbage"])
def test_bytes_that_are_none(data: bytes) -> None:
    with pytest.raises(FrameError, match="invalid archive record"):
        archived.decode(data)


def test_what_balances_and_what_is_not_read_yet() -> None:
    assert ROW.difference == 0
    assert ROW._replace(gap=1).difference == 1
    assert unread(ROW, 5, 100) == 60
    assert unread(ROW, 5, 39) == unread(ROW, 6, 100) == 0  # read later than those; of another epoch
