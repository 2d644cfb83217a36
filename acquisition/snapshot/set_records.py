"""The records of one resource set as a survey has them: single values, and those of hosts side by side (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError
from acquisition.snapshot.column import Bools
from acquisition.snapshot.record_arrays import Group, groups_of
from acquisition.wire import host_records, smoothed

Hosts = npt.NDArray[np.uint64]
_MOST_KEPT = 256
_HOST = slice(smoothed.HOST_AT, smoothed.HOST_AT + 8)


class SetRecords:
    """The records of rows, None where there is none: those of ``values`` (N,), and in their places where these are None
    those of ``joint``. Some of the values may be there once more as a ``copy`` side by side, whose rows rise."""

    def __init__(self, values: list[bytes | None], joint: Sequence[Group] = (), copy: Group | None = None) -> None:
        self._values = values
        self._joint = joint
        self._copy = copy
        self._places: list[tuple[npt.NDArray[np.intp], Group]] = []
        for group in joint:
            places = np.full(len(values), -1, np.intp)
            places[group.rows] = np.arange(len(group.rows))
            self._places.append((places, group))

    def __getitem__(self, row: int) -> bytes | None:
        value = self._values[row]
        if value is None:
            for places, group in self._places:
                if places[row] >= 0:
                    record: bytes = group.data[places[row]].tobytes()
                    return record
        return value

    def of(self, rows: npt.NDArray[np.intp]) -> SetRecords:
        """Those of some rows (k,) alone."""
        copy = self._copy
        if copy is None or not len(copy.rows):
            return SetRecords([self[row] for row in rows.tolist()])
        at = np.minimum(np.searchsorted(copy.rows, rows), len(copy.rows) - 1)
        there = copy.rows[at] == rows
        values: list[bytes | None] = [None] * len(rows)
        for place in np.flatnonzero(~there).tolist():
            values[place] = self[int(rows[place])]
        chosen = copy.data if np.array_equal(copy.rows, rows[there]) else copy.data[at[there]]
        return SetRecords(values, [Group(np.flatnonzero(there), chosen)])

    def evened(self) -> EvenRecords:
        """All of them, those of the most frequent size side by side."""
        groups = sorted(self.groups(smoothed.HEADER_SIZE), key=lambda group: -len(group.rows))
        count, even = (
            len(self._values),
            groups[0] if groups else Group(np.empty(0, np.intp), np.empty((0, 0), np.uint8)),
        )
        matrix, there = np.zeros((count, even.data.shape[1]), np.uint8), np.zeros(count, np.bool_)
        matrix[even.rows], there[even.rows] = even.data, True
        others = {
            row: data.tobytes()
            for group in groups[1:]
            for row, data in zip(group.rows.tolist(), group.data, strict=True)
        }
        return EvenRecords(matrix, there, others)

    def put(self, row: int, value: bytes | None) -> None:
        """Make a value the record of a row."""
        self._values[row] = value

    def known(self) -> Bools:
        """Which rows have a record, (N,)."""
        known = np.array([value is not None for value in self._values], np.bool_)
        for group in self._joint:
            known[group.rows] = True
        return known

    def groups(self, least: int) -> Iterator[Group]:
        """All of them by length, as ``groups_of``."""
        if not any(self._values):
            yield from (group for group in self._joint if group.data.shape[1] >= least)
            return
        alone = np.array([value is None for value in self._values], np.bool_)
        yield from (group.pick(alone[group.rows]) for group in self._joint if group.data.shape[1] >= least)
        yield from groups_of(self._values, least)


class EvenRecords(NamedTuple):
    """Records of rows: where ``there`` (N,), those of ``matrix`` (N, size), and ``others`` by row."""

    matrix: npt.NDArray[np.uint8]
    there: Bools
    others: dict[int, bytes]

    def known(self) -> Bools:
        """Which rows have a record, (N,)."""
        known = self.there.copy()
        known[list(self.others)] = True
        return known

    def without(self, gone: Bools) -> EvenRecords:
        """A copy without the rows that are ``gone`` (N,)."""
        kept = {row: data for row, data in self.others.items() if not gone[row]}
        return EvenRecords(self.matrix.copy(), self.there & ~gone, kept)

    def put(self, rows: npt.NDArray[np.intp], values: npt.NDArray[np.uint8]) -> None:
        """Make ``values`` (k, size) the records of rows that have none."""
        self.matrix[rows], self.there[rows] = values, True

    def put_each(self, rows: Sequence[int], values: Sequence[bytes]) -> None:
        """The same of values of any size."""
        size = self.matrix.shape[1]
        even = [at for at, value in enumerate(values) if len(value) == size]
        joined = np.frombuffer(b"".join([values[at] for at in even]), np.uint8).reshape(len(even), size)
        self.put(np.array(rows, np.intp)[even], joined)
        self.others.update({row: value for row, value in zip(rows, values, strict=True) if len(value) != size})

    def records(self) -> SetRecords:
        """The same for who reads them; nothing may be put afterwards."""
        values: list[bytes | None] = [None] * len(self.there)
        for row, value in self.others.items():
            values[row] = value
        rows = np.flatnonzero(self.there)
        even = self.matrix if len(rows) == len(self.there) else self.matrix[rows]
        return SetRecords(values, [Group(rows, even)] if len(rows) else [])


class HostRows:
    """The rows of ``hosts`` (N,). What was found is kept, for the same are asked for again and again."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._order = np.argsort(hosts)
        self._sorted = hosts[self._order]
        self._found: dict[bytes, npt.NDArray[np.intp]] = {}

    def __len__(self) -> int:
        return len(self._hosts)

    def of(self, wanted: Hosts) -> npt.NDArray[np.intp]:
        """The row of each of them, -1 where it has none."""
        key = wanted.tobytes()
        if key not in self._found:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            self._found[key] = self.find(wanted)
        return self._found[key]

    def find(self, wanted: Hosts) -> npt.NDArray[np.intp]:
        """The same, of hosts that nobody will ask for again."""
        if not len(self._hosts):
            return np.full(len(wanted), -1, np.intp)
        last = len(self._hosts) - 1
        rows = self._order[np.minimum(np.searchsorted(self._sorted, wanted), last)]
        return np.where(self._hosts[rows] == wanted, rows, -1)


def joined(values: list[bytes | None], data: Sequence[bytes], rows: HostRows) -> SetRecords:
    """``values`` (N,), and the records of these ``rows`` in ``data``, values of ``acquisition.wire.host_records``. What
    is no such value says nothing, nor does a record of anybody else."""
    even: dict[int, list[npt.NDArray[np.uint8]]] = {}
    for each in data:
        try:
            found = host_records.decode(each)
        except FrameError:
            continue
        if found.size >= smoothed.HEADER_SIZE:
            matrix = np.frombuffer(each, np.uint8, offset=found.start).reshape(-1, found.size)
            even.setdefault(found.size, []).append(matrix)
        else:
            _put_each(values, found.records(), rows)
    groups = []
    for matrices in even.values():
        matrix = np.concatenate(matrices)
        found_rows = rows.of(np.ascontiguousarray(matrix[:, _HOST]).view("<u8")[:, 0])
        theirs = found_rows >= 0
        groups.append(Group(found_rows, matrix) if theirs.all() else Group(found_rows[theirs], matrix[theirs]))
    return SetRecords(values, groups)


def _put_each(values: list[bytes | None], records: Sequence[bytes], rows: HostRows) -> None:
    whose = [int.from_bytes(record[_HOST], "little") for record in records]
    for row, record in zip(rows.of(np.array(whose, np.uint64)).tolist(), records, strict=True):
        if row >= 0:
            values[row] = record
