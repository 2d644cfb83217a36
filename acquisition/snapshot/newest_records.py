"""The newest record of each host of a resource set, as it was read last: what is ahead of the tick that is due is read
again only where it is another one.

A record and its position are written in one transaction, so who has the position of before has the record of before.
The position is read first: what is held is never older than it. What is due is always read: it is the answer of all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acquisition.snapshot.column import Bools
from acquisition.snapshot.judgement import Due
from acquisition.snapshot.positions import PositionTable
from acquisition.snapshot.record_arrays import POSITION, Bytes, Rows
from acquisition.snapshot.set_records import EvenRecords
from acquisition.snapshot.shard_reading import Member

_OFTEN = 2.0  #: seconds: who asks more rarely finds another record of nearly every host
_NOTHING = EvenRecords(np.empty((0, 0), np.uint8), np.empty(0, np.bool_), {})


class NewestRecords:
    """What the last reading of each host's newest record found; one ``SetReader`` uses it."""

    def __init__(self) -> None:
        self._asked = -np.inf  #: when the last reading began, by the reader's clock
        self._members: Sequence[Member] = ()
        self._positions: Bytes = np.empty((0, POSITION.itemsize), np.uint8)
        self._records = _NOTHING
        self._certain: Bools = np.empty(0, np.bool_)

    def are_held(self, members: Sequence[Member], due: Due) -> bool:
        """Whether there is anything of these very members, from a moment ago."""
        return len(self._members) > 0 and self._members is members and self.is_often(due)

    def held(self, positions: Bytes, known: Bools) -> tuple[EvenRecords, Bools]:
        """The records that are held, and whether they are those of the ``positions`` of now (N, size), (N,), as far as
        these are ``known``."""
        same = (positions.view("<u8") == self._positions.view("<u8")).all(axis=1)
        return self._records, same & known & self._certain

    def keep(self, members: Sequence[Member], positions: Bytes, records: EvenRecords, certain: Bools) -> None:
        """Keep the newest records of ``positions`` (N, size); only those that are ``certain`` (N,)."""
        self._members, self._positions = members, positions
        self._records, self._certain = records, certain & records.known()

    def note(self, due: Due) -> None:
        """A reading has begun; what was held is let go of if nobody has asked for long."""
        if not self.is_often(due):
            self._members = ()
        self._asked = due.now

    def is_often(self, due: Due) -> bool:
        """Whether the last reading was a moment ago."""
        return 0.0 <= due.now - self._asked < _OFTEN


def positions_as_bytes(table: PositionTable, rows: Rows) -> Bytes:
    """The positions of ``rows`` (N,), (N, size)."""
    found: Bytes = table.records[rows].view(np.uint8).reshape(len(rows), POSITION.itemsize)
    return found
