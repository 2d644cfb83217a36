"""Entries that were put aside: golden fields, round trip, and what no filter wrote."""

from __future__ import annotations

import pytest

from acquisition.errors import FrameError
from acquisition.link.resp import pack
from acquisition.wire import rejected
from acquisition.wire.rejected import Rejected
from tests.support import FIXTURES

GOLDEN = FIXTURES / "frames" / "rejected.resp"
REJECTED = Rejected(b"1700000000123-4", "crc", "the checksum does not match: törn")


def test_golden_bytes() -> None:
    assert pack(rejected.encode(REJECTED)) == GOLDEN.read_bytes()


def test_reads_back_and_is_cut() -> None:
    fields = [field if isinstance(field, bytes) else field.encode() for field in rejected.encode(REJECTED)]
    assert rejected.decode(fields) == REJECTED
    assert rejected.decode(fields[:4]) == Rejected(REJECTED.entry, "crc", "")
    assert rejected.encode_bytes(b"1-1", [b"f", b"\x00\xff", 7]) == ("entry", b"1-1", "data", b"f \x00\xff 7")
    assert len(rejected.encode_bytes(b"1-1", [bytes(10_000)])[-1]) == 4096
    assert rejected.encode_bytes(b"1-1", None)[-1] == b""


@pytest.mark.parametrize("fields", [(), (b"entry", b"1-1"), (b"reason", b"crc"), (b"entry",), None, 7, (1, 2, 3, 4)])
def test_what_no_filter_wrote(fields: object) -> None:
    with pytest.raises(FrameError) as caught:
        rejected.decode(fields)  # type: ignore[arg-type]
    assert caught.value.reason == "payload"
