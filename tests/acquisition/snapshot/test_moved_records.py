"""Records of many entries taken apart together are those that one finds one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from acquisition.errors import FrameError
from acquisition.snapshot.moved_records import MovedRecords, defined, newest_of
from acquisition.snapshot.record_arrays import dtype_of
from acquisition.snapshot.set_records import HostRows
from acquisition.wire import host_records, smoothed

HEAD = dtype_of(smoothed.HEADER_FIELDS)
HOSTS = HostRows(np.array([70, 3, 9, 1 << 60, 12], np.uint64))


def record(host: int, tick: int, size: int = 104, mark: int = 0) -> bytes:
    head = np.zeros(1, HEAD)
    head["host"], head["tick"] = host, tick
    return head.tobytes() + bytes([mark]) * (size - smoothed.HEADER_SIZE)


def by_row(found: MovedRecords) -> dict[int, bytes]:
    assert found.even.rows.tolist() == sorted(found.even.rows.tolist())
    listed = dict(zip(found.even.rows.tolist(), found.even.records(), strict=True))
    assert not listed.keys() & found.others.keys()
    return listed | found.others


def test_the_last_entry_has_the_newest_record_of_a_host() -> None:
    entries = [
        host_records.encode([record(9, 5), record(3, 7), record(9, 4, mark=1)]),
        host_records.encode([record(3, 6, mark=2)]),
        host_records.encode([record(8, 1)]),  # nobody's
    ]
    found = newest_of(entries, HOSTS)
    assert not found.others  # all at once
    assert by_row(found) == {1: record(3, 6, mark=2), 2: record(9, 5)}


def test_of_equal_ticks_the_last_one_counts() -> None:
    entries = [host_records.encode([record(3, 6), record(3, 6, mark=1)])]
    assert by_row(newest_of(entries, HOSTS)) == {1: record(3, 6, mark=1)} == by_row(defined(entries, HOSTS))


def test_it_is_what_one_finds_one_by_one() -> None:
    chance = random.Random(4)
    for _ in range(300):
        sizes = chance.choice([[104], [104], [104, 120], [smoothed.HEADER_SIZE - 1, 104], [40]])
        entries = [
            host_records.encode(
                [
                    record(chance.choice([70, 3, 9, 12, 13]), chance.randrange(4), 104, chance.randrange(256))[
                        : (size := chance.choice(sizes))
                    ].ljust(size, b"\7")
                    for _ in range(chance.randrange(1, 5))
                ]
            )
            for _ in range(chance.randrange(9))
        ]
        assert by_row(newest_of(entries, HOSTS)) == by_row(defined(entries, HOSTS))


def test_nothing_and_nobody() -> None:
    assert by_row(newest_of([], HOSTS)) == {}
    assert by_row(newest_of([host_records.encode([record(3, 1)])], HostRows(np.empty(0, np.uint64)))) == {}


@pytest.mark.parametrize("cut", [1, 4, 9, 13, 40])
def test_a_damaged_entry_is_told(cut: int) -> None:
    whole = host_records.encode([record(3, 1), record(9, 1)])
    for damaged in (whole[:-cut], b"X" + whole[1:], whole + bytes(cut)):
        for find in (newest_of, defined):
            with pytest.raises(FrameError):
                find([whole, damaged], HOSTS)
