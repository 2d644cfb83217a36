"""The newest record of each host of a resource set, as it was read last: what is ahead of the tick that is due is read
again only where it is another one.

A record and its position are written in one transaction, so who has the position of before has the record of before.
The position is read first: what is held is never older than it. What is due is always read: it is the answer of all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from acquisition.snapshot.column import Bools
from acquisition.snapshot.judgement import Due
from acquisition.snapshot.positions import PositionTable
from acquisition.snapshot.record_arrays import POSITION, Rows
from acquisition.snapshot.set_records import SetRecords
from acquisition.snapshot.shard_reading import Member

_OFTEN = 2.0  #: seconds: who asks more rarely finds another record of nearly every host


class NewestRecords:
    """What the last reading of each host's newest record found; one ``SetReader`` uses it."""

    def __init__(self) -> None:
        self._asked = -np.inf  #: when the last reading began, by the reader's clock
        self._members: Sequence[Member] = ()
        self._positions: npt.NDArray[np.uint8] = np.empty((0, POSITION.itemsize), np.uint8)
        self._values: list[bytes | None] = []

    def are_held(self, members: Sequence[Member], due: Due) -> bool:
        """Whether there is anything of these very members, from a moment ago."""
        return len(self._members) > 0 and self._members is members and self._is_often(due)

    def held(self, table: PositionTable, rows: Rows) -> tuple[list[bytes | None], Bools]:
        """The records of ``rows`` (N,) that are held, and whether they are those of the positions of now, (N,)."""
        same = (_bytes_of(table, rows) == self._positions).all(axis=1) & table.known[rows]
        return list(self._values), same & np.fromiter((each is not None for each in self._values), np.bool_, len(rows))

    def keep(self, table: PositionTable, rows: Rows, records: SetRecords, certain: Bools, due: Due) -> None:
        """Keep the newest records of ``rows`` if somebody asks for them often; only those that are ``certain`` (N,)."""
        if self._is_often(due):
            self._members, self._positions, self._values = table.members, _bytes_of(table, rows), records.values()
            for row in np.flatnonzero(~certain).tolist():
                self._values[row] = None
        else:
            self._members = ()
        self._asked = due.now

    def _is_often(self, due: Due) -> bool:
        return 0.0 <= due.now - self._asked < _OFTEN


def _bytes_of(table: PositionTable, rows: Rows) -> npt.NDArray[np.uint8]:
    """Positions as bytes, (N, size)."""
    found: npt.NDArray[np.uint8] = table.records[rows].view(np.uint8).reshape(len(rows), POSITION.itemsize)
    return found
