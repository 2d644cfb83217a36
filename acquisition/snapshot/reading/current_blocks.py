"""The blocks of a coherent reading, or of newest samples, that are as they should be, judged side by side.

Most members are: their position and their record are there, sound, and of the tick that is due. Of these the blocks
are made without looking at one after the other; of all others there is None here, and ``judgement`` says what they are.
Both must agree: ``tests/acquisition/snapshot/test_unchanged.py`` holds that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import ticks
from acquisition.snapshot.reading.heads import Bools, heads_of
from acquisition.snapshot.reading.judgement import Due
from acquisition.snapshot.reading.positions import PositionTable
from acquisition.snapshot.values.block import Block

_MOST_TICKS = 1 << 62


def due_ticks(intervals: npt.NDArray[np.float64], due: Due) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The exact interval and the due tick of every host; 0 where ``intervals`` say nothing."""
    exact, tick = np.zeros(len(intervals)), np.zeros(len(intervals), np.int64)
    even = len(intervals) > 0 and bool((intervals == intervals[0]).all())
    for each in intervals[:1].tolist() if even else np.unique(intervals).tolist():
        if 0.0 < each < float("inf") and abs(newest := due.tick(ticks.exact_interval(each))) < _MOST_TICKS:
            here = intervals == each
            exact[here], tick[here] = ticks.exact_interval(each), newest
    return exact, tick


class Judged(NamedTuple):
    """The records of all members of ``table``, in its order: ``good`` (N,) are those that are current, ``ids`` their
    rows, ``heads`` (N,) the headers."""

    table: PositionTable
    values: Sequence[bytes | None]
    heads: npt.NDArray[np.void]
    intervals: npt.NDArray[np.float64]
    good: Bools
    ids: Sequence[bytes]

    def current(self, rows: Sequence[int] | None = None) -> dict[int, Block]:
        """The blocks that are current, by row: in the order of ``rows``, else all."""
        wanted = np.arange(len(self.good)) if rows is None else np.asarray(rows, np.intp)
        wanted = wanted[self.good[wanted]]
        heads, chosen = self.heads[wanted], wanted.tolist()
        times = (heads[name].tolist() for name in ("tick", "wall", "filtered"))
        columns = (heads["schema"].tolist(), self.intervals[wanted].tolist(), *times)
        members, data, values, ids = self.table.members, self.table.data, self.values, self.ids
        return {
            row: Block.current(members[row], data[row], values[row] or b"", ids[row], *told)
            for row, *told in zip(chosen, *columns, strict=True)
        }

    def rows_unlike(self, other: Judged) -> set[int] | None:
        """The rows that have other rows or columns; None where not all are current in both, or members are others."""
        if self.table.members is not other.table.members or not (self.good.all() and other.good.all()):
            return None
        found = set(np.flatnonzero(self.heads["schema"] != other.heads["schema"]).tolist())
        if self.ids != other.ids:
            found |= {row for row, pair in enumerate(zip(self.ids, other.ids, strict=True)) if pair[0] != pair[1]}
        return found


def judge(table: PositionTable, records: list[bytes | None], due: Due, newest: bool = False) -> Judged:
    """Say who is current; ``records`` are what was read of each member: of the tick that is due, or with ``newest`` of
    its own newest one, which must not be behind that."""
    heads, sound, ids = heads_of(records)
    intervals, wanted = due_ticks(np.where(table.known, table.records["interval"], 0.0), due)
    if newest:
        wanted = np.maximum(wanted, table.records["tick"])
    good = sound & (intervals > 0.0)
    for name, expected in (
        ("host", table.hosts), ("resource_set", table.sets), ("epoch", table.records["epoch"]), ("tick", wanted),
    ):  # fmt: skip
        good &= heads[name] == expected
    good &= heads["filtered"] >= (wanted - 1) * intervals
    return Judged(table, records, heads, intervals, good, ids)
