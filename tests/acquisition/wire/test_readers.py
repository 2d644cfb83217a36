"""Claims of readers: golden bytes, round trips, what is none, and which one is oldest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.wire import readers
from acquisition.wire.readers import Cut, Reader

CLOCK = [b"1700000000", b"123456"]  #: 1,700,000,000,123 ms
entries = st.builds(lambda a, b: b"%d-%d" % (a, b), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))


def test_golden_bytes() -> None:
    reader = Reader(b"1700000000123-4", 1700000900123, 1700000000999, 5, 6, 7)
    assert readers.encode(reader) == b"1700000000123-4 1700000900123 1700000000999 5 6 7"
    assert readers.decode(readers.encode(reader)) == reader
    waiting = reader._replace(trouble="the disk is full")
    assert readers.encode(waiting) == b"1700000000123-4 1700000900123 1700000000999 5 6 7 the disk is full"
    assert readers.decode(readers.encode(waiting)) == waiting
    assert len(readers.decode(readers.encode(reader._replace(trouble="ä" * 500))).trouble) == 100
    assert readers.decode(b"1-1 5 garbage") == Reader(b"1-1", 5)
    assert readers.encode_cut(Cut(b"1700000000123-5", 17)) == b"1700000000123-5 17"


@given(entries, st.integers(0, 2**53 - 1))
def test_round_trips(entry: bytes, number: int) -> None:
    assert readers.decode(readers.encode(Reader(entry, number))) == Reader(entry, number)
    assert readers.decode_cut(readers.encode_cut(Cut(entry, number))) == Cut(entry, number)


@pytest.mark.parametrize("data", [b"", b"garbage", b"1-1", b"1 1", b"1-1 x", b"99999999999999999999-0 1", b"\xff 1"])
def test_bytes_that_are_none(data: bytes) -> None:
    for decode in (readers.decode, readers.decode_cut):
        with pytest.raises(FrameError, match="invalid"):
            decode(data)


def test_the_oldest_claim_is_that_of_a_living_reader() -> None:
    alive, dead = b"1700000000124", b"1700000000123"
    fields = [b"a", b"90-1 " + alive, b"b", b"100-0 " + alive, b"c", b"5-0 " + dead, b"d", b"garbage"]
    assert readers.oldest_claim(fields, CLOCK) == b"90-1"  # by number, not by text
    assert readers.oldest_claim(fields[4:], CLOCK) is None
    assert readers.oldest_claim([], CLOCK) is None
