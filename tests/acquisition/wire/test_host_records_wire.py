"""Records of hosts side by side: golden bytes, round trips, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.wire import host_records

GOLDEN = b"SPHR\x02\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00abcd"


def test_golden_bytes() -> None:
    assert host_records.encode([b"a", b"bcd"]) == GOLDEN
    assert host_records.decode(GOLDEN).records() == [b"a", b"bcd"]


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_they_read_back(records: list[bytes]) -> None:
    found = host_records.decode(host_records.encode(records))
    assert found.records() == host_records.split(host_records.encode(records)) == records
    assert found.size == (len(records[0]) if len({len(each) for each in records}) == 1 else 0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "short"), (GOLDEN[:7], "short"), (GOLDEN[:10], "short"), (GOLDEN[:-1], "shape"), (GOLDEN + b"e", "shape"),
        (b"SPSM" + GOLDEN[4:], "magic"), (GOLDEN[:4] + b"\xff" * 4 + GOLDEN[8:], "short"),
        (GOLDEN[:8] + b"\xff" * 8 + GOLDEN[16:], "shape"),
    ],
)  # fmt: skip
def test_what_is_none(data: bytes, reason: str) -> None:
    with pytest.raises(FrameError) as caught:
        host_records.decode(data)
    assert caught.value.reason == reason
    with pytest.raises(FrameError):
        host_records.split(data)
