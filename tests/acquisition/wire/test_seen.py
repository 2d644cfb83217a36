"""The roster's fields: golden bytes, round trip, and what is none of ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.wire import seen
from acquisition.wire.seen import Seen


def test_golden_bytes() -> None:
    assert seen.encode(Seen(0x2A, "web-1", 1_700_000_000.25)) == (b"000000000000002a", b"1700000000250 web-1")


@given(
    st.integers(0, 2**64 - 1), st.text(st.characters(codec="utf-8"), min_size=1, max_size=60), st.integers(0, 10**12)
)
def test_round_trip(host: int, name: str, milliseconds: int) -> None:
    made = Seen(host, name, milliseconds / 1000.0)
    assert seen.decode(*seen.encode(made)) == made


@pytest.mark.parametrize(
    ("field", "value"),
    [(b"000000000000002a:00000003", b"1 web"), (b"2a", b"1 web"), (b"000000000000002a", b"web"), (b"0" * 16, b"")],
)
def test_what_is_none_of_ours_is_no_host(field: bytes, value: bytes) -> None:
    assert seen.decode(field, value) is None


def test_a_host_without_a_name_is_called_by_its_id() -> None:
    assert seen.decode(b"000000000000002a", b"5 ") == Seen(0x2A, "000000000000002a", 0.005)
