"""The blocks of a coherent reading that are as they should be, judged side by side.

Most members are: their position and their record are there, sound, and of the tick that is due. Of these the blocks
are made without looking at one after the other; of all others there is None here, and ``judgement`` says what they are.
Both must agree: ``tests/acquisition/snapshot/test_current_blocks.py`` holds that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import ticks
from acquisition.snapshot.block import Block
from acquisition.snapshot.column import Bools
from acquisition.snapshot.judgement import Due
from acquisition.snapshot.positions import PositionTable
from acquisition.snapshot.record_arrays import dtype_of
from acquisition.wire import smoothed

_HEAD = dtype_of(smoothed.HEADER_FIELDS)
_SIZE = smoothed.HEADER_SIZE
_MOST_TICKS = 1 << 62


def due_ticks(intervals: npt.NDArray[np.float64], due: Due) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The exact interval and the due tick of every host; 0 where ``intervals`` say nothing."""
    exact, tick = np.zeros(len(intervals)), np.zeros(len(intervals), np.int64)
    for each in np.unique(intervals).tolist():
        if 0.0 < each < float("inf") and abs(newest := due.tick(ticks.exact_interval(each))) < _MOST_TICKS:
            here = intervals == each
            exact[here], tick[here] = ticks.exact_interval(each), newest
    return exact, tick


class Judged(NamedTuple):
    """The records of all members of ``table``, in its order: ``good`` (N,) are those that are current, ``ids`` their
    rows, ``schemas`` (N,) their columns."""

    table: PositionTable
    values: Sequence[bytes]
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
            row: Block.current(members[row], data[row], values[row], ids[row], *told)
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


def judge(table: PositionTable, records: Sequence[bytes | None], due: Due) -> Judged:
    """Say who is current; ``records`` are what was read of each member."""
    values = [record or b"" for record in records]
    heads = np.frombuffer(b"".join([value[:_SIZE].ljust(_SIZE, b"\0") for value in values]), _HEAD)
    intervals, wanted = due_ticks(np.where(table.known, table.records["interval"], 0.0), due)
    good = _sound(heads, values) & (intervals > 0.0)
    for name, expected in (
        ("host", table.hosts), ("resource_set", table.sets), ("epoch", table.records["epoch"]), ("tick", wanted),
    ):  # fmt: skip
        good &= heads[name] == expected
    good &= heads["filtered"] >= (wanted - 1) * intervals
    ids_at = _SIZE + heads["inputs_size"].astype(np.int64)
    planes_at = (ids_at + 8 * heads["entities"].astype(np.int64)).tolist()
    ids = [value[low:high] for value, low, high in zip(values, ids_at.tolist(), planes_at, strict=True)]
    return Judged(table, values, heads, intervals, good, ids)


def _sound(heads: npt.NDArray[np.void], values: Sequence[bytes]) -> Bools:
    """Where ``smoothed.check`` finds a record, (N,)."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    rows, metrics, planes, count, inputs = (
        heads[name].astype(np.int64) for name in ("entities", "metrics", "plane_count", "exceptions", "inputs_size")
    )
    begin = _SIZE + inputs + 8 * rows + 4 * rows * metrics * planes
    good = (lengths >= _SIZE) & (begin + smoothed.EXCEPTION.itemsize * count == lengths)
    good &= np.ascontiguousarray(heads["magic"]).view("<u4") == int.from_bytes(smoothed.MAGIC, "little")
    good &= (heads["version"] >= smoothed.VERSIONS[0]) & (heads["version"] <= smoothed.VERSIONS[-1])
    good &= (planes >= 1) & (planes <= smoothed.MAX_PLANES) & (inputs % 8 == 0)
    marked = np.flatnonzero(good & (count > 0))
    if marked.size:
        ends = zip(marked.tolist(), begin[marked].tolist(), strict=True)
        listed = b"".join([values[row][start:] for row, start in ends])
        starts = np.cumsum(count[marked]) - count[marked]
        highest = np.maximum.reduceat(np.frombuffer(listed, smoothed.EXCEPTION)["index"], starts)
        good[marked] = highest < rows[marked] * metrics[marked]
    return np.asarray(good)
