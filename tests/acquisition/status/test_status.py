"""Status records: round trip, and bytes that are none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.outbox.frames.window import SendWindow
from acquisition.wire import status
from acquisition.wire.position import Position


def window() -> SendWindow:
    made = SendWindow(0xFFFFFFFF, 2**63, 10, 250)
    for samples in (40, 10):
        made.send(made.number(samples))
    made.drop(11, 290, 40, False)
    made.synchronize(Position(2**63, 9, 0, 0.0, 1.0, 0))
    made.send(12)
    made.acknowledge(11, 290, b"1700-3")
    return made


ROW = window().status()
DATA = status.encode("alpha", 1.5, {0xFFFFFFFF: ROW}, {"errors": {"oom": 2}})


def test_round_trip() -> None:
    record = status.decode(DATA)
    assert (record.host_name, record.wall, record.rest) == ("alpha", 1.5, {"errors": {"oom": 2}})
    row = record.sets[0xFFFFFFFF]
    assert row == ROW
    assert (row.epoch, row.made, row.frames, row.floor) == (2**63, 300, 12, 12)
    assert (row.sent, row.sent_id, row.sent_samples, row.applied) == (11, "1700-3", 290, 9)
    assert (row.dropped_frames, row.dropped_samples, row.floor_samples) == (1, 40, 290)
    assert (row.go_backs, row.resent_frames, row.next) == (1, 1, 13)


def test_columns_are_found_by_name() -> None:
    document = json.loads(DATA)
    document["fields"].append("newer")
    document["sets"]["ffffffff"].append("than us")
    document["fields"].reverse()
    document["sets"]["ffffffff"].reverse()
    assert status.decode(json.dumps(document).encode()).sets[0xFFFFFFFF] == ROW


def test_a_probe_that_does_not_say_what_it_holds() -> None:
    document = json.loads(DATA)
    place = document["fields"].index("floor_samples")
    del document["fields"][place], document["sets"]["ffffffff"][place]
    assert status.decode(json.dumps(document).encode()).sets[0xFFFFFFFF].floor_samples == -1


def test_what_json_does_not_know_is_written_as_text() -> None:
    assert status.decode(status.encode("alpha", 1.0, {}, {"probe": {1}})).rest == {"probe": "{1}"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"{}",
        b"[" * 100_000,
        DATA[:-1],
        DATA.replace(b'"format":1', b'"format":2'),
        DATA.replace(b'"made"', b'"maid"'),
        DATA.replace(b"[%d," % 2**63, b'["many",'),
        DATA.replace(b'"1700-3"', b"1700"),
        DATA.replace(b'"ffffffff"', b'"no number"'),
        DATA.replace(b"[%d," % 2**63, b"["),
        DATA.replace(b"[%d," % 2**63, b"[-1,"),
        DATA.replace(b"[%d," % 2**63, b"[true,"),
        DATA.replace(b"[%d," % 2**63, b"[%d," % 2**64),
        DATA.replace(b'"wall":1.5', b'"wall":NaN'),
        DATA.replace(b'"wall":1.5', b'"wall":1' + b"0" * 400),
    ],
)
def test_bytes_that_are_no_status(data: bytes) -> None:
    with pytest.raises(FrameError, match="invalid status record"):
        status.decode(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_order(data: bytes) -> None:
    with pytest.raises(FrameError):
        status.decode(data)
