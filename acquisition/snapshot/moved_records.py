"""The newest record of each host in what commits have changed, side by side (pure).

An entry holds the records of a few hosts, and a reading takes hundreds of entries. Those of equal length are taken
apart together: where what stands before the records is what must stand there, they lie at places that are known.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.snapshot.record_arrays import Bytes, Group, Rows, dtype_of, offset_of
from acquisition.snapshot.set_records import HostRows
from acquisition.wire import host_records, smoothed

_HEAD = dtype_of(smoothed.HEADER_FIELDS)
_TICK_AT = offset_of(_HEAD, "tick")
_WHOSE = struct.Struct(f"<{smoothed.HOST_AT}xQ{_TICK_AT - smoothed.HOST_AT - 8}xq")  #: host and tick of a record
_tick = itemgetter(1)


class MovedRecords(NamedTuple):
    """The records of rows: those of one size as a group whose rows rise, and ``others`` by row."""

    even: Group
    others: dict[int, bytes]


class _Part(NamedTuple):
    """Records (k, size) of entries of equal length, and of which entry each is (k,)."""

    data: Bytes
    entries: npt.NDArray[np.intp]


def newest_of(entries: Sequence[bytes], rows: HostRows) -> MovedRecords:
    """Of each host that is one of ``rows`` the record of the last of ``entries`` (acquisition.wire.host_records), there
    that of the newest tick. What is no record is left out. Raises FrameError for an entry that is none."""
    parts = _even_parts(entries)
    return _chosen(parts, rows) if parts else defined(entries, rows)


def defined(entries: Sequence[bytes], rows: HostRows) -> MovedRecords:
    """The same one by one, of any sizes: the definition."""
    found: dict[int, bytes] = {}
    for entry in entries:
        records = [each for each in host_records.split(entry) if len(each) >= smoothed.HEADER_SIZE]
        whose = sorted([(*_WHOSE.unpack_from(each), each) for each in records], key=_tick)
        for row, (_, _, record) in zip(rows.find(_hosts(whose)).tolist(), whose, strict=True):
            if row >= 0:
                found[row] = record
    return MovedRecords(Group(np.empty(0, np.intp), np.empty((0, 0), np.uint8)), found)


def _hosts(whose: Sequence[tuple[int, int, bytes]]) -> npt.NDArray[np.uint64]:
    return np.array([host for host, _, _ in whose], np.uint64)


def _even_parts(entries: Sequence[bytes]) -> list[_Part]:
    """All records by the length of their entries; nothing where they have not one size."""
    by_length: dict[int, list[int]] = {}
    for at, entry in enumerate(entries):
        by_length.setdefault(len(entry), []).append(at)
    found = []
    size = host_records.first_size(entries[0]) if entries else 0
    for length, places in by_length.items():
        head = host_records.even_head(length, size)
        if not head or size < smoothed.HEADER_SIZE:
            return []
        matrix = np.frombuffer(b"".join([entries[at] for at in places]), np.uint8).reshape(len(places), length)
        if not (matrix[:, : len(head)] == np.frombuffer(head, np.uint8)).all():
            return []
        data = matrix[:, len(head) :].reshape(-1, size)
        found.append(_Part(data, np.repeat(np.array(places, np.intp), len(data) // len(places))))
    return found


def _chosen(parts: Sequence[_Part], rows: HostRows) -> MovedRecords:
    """Of each host the newest."""
    heads = [np.ascontiguousarray(part.data[:, : _HEAD.itemsize]).view(_HEAD)[:, 0] for part in parts]
    wanted = rows.find(np.concatenate([head["host"] for head in heads]))
    order = np.lexsort((np.concatenate([head["tick"] for head in heads]), np.concatenate([p.entries for p in parts])))
    order = order[wanted[order] >= 0]
    last = np.full(len(rows), -1, np.intp)
    last[wanted[order]] = order
    found: Rows = np.flatnonzero(last >= 0)
    sources, first = last[found], 0
    data = np.empty((len(found), parts[0].data.shape[1]), np.uint8)
    for part in parts:
        here = (sources >= first) & (sources < first + len(part.data))
        data[here] = part.data[sources[here] - first]
        first += len(part.data)
    return MovedRecords(Group(found, data), {})
