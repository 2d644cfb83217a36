"""Entries that tell what commits have changed: golden bytes, round trips, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.wire import changes, host_records, keys, position
from acquisition.wire.position import Position

MEMBER = keys.member(7, 8).encode()
PLACE = position.encode(Position(1, 2, 3, 4.0, 1.0))
GOLDEN = [
    b"before", b"a1", b"commit", b"b2", b"applied", MEMBER + PLACE,
    b"records", b"SPHR\x02\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00abcd",
]  # fmt: skip


def test_golden_bytes() -> None:
    assert changes.encode(b"a1", b"b2", MEMBER + PLACE, [b"a", b"bcd"]) == GOLDEN
    found = changes.decode(GOLDEN)
    assert found[:2] == (b"a1", b"b2")
    assert changes.pairs(found.applied) == ([MEMBER], [PLACE])
    assert host_records.split(found.records) == [b"a", b"bcd"]


@given(
    st.binary(max_size=20),
    st.binary(max_size=20),
    st.lists(st.tuples(st.binary(min_size=25, max_size=25), st.binary(min_size=120, max_size=120)), max_size=9),
    st.lists(st.binary(max_size=40), max_size=9),
)
def test_they_read_back(before: bytes, commit: bytes, applied: list[tuple[bytes, bytes]], records: list[bytes]) -> None:
    pairs = b"".join(member + data for member, data in applied)
    found = changes.decode(changes.encode(before, commit, pairs, records))
    assert (found.before, found.commit) == (before, commit)
    assert changes.pairs(found.applied) == ([member for member, _ in applied], [data for _, data in applied])
    assert (host_records.split(found.records) if found.records else []) == records


@pytest.mark.parametrize(
    "fields",
    [
        [], GOLDEN[:-1], GOLDEN[:-2], [*GOLDEN, b"more"], [b"other", *GOLDEN[1:]],
        [*GOLDEN[:5], GOLDEN[5][:-1], *GOLDEN[6:]], [*GOLDEN[:7], GOLDEN[7][:-1]],
    ],
)  # fmt: skip
def test_what_is_none(fields: list[bytes]) -> None:
    with pytest.raises(FrameError):
        decode_all(fields)


def decode_all(fields: list[bytes]) -> None:
    found = changes.decode(fields)
    changes.pairs(found.applied)
    host_records.split(found.records)
