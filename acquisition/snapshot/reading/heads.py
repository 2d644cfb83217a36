"""Headers of many records side by side, and the blocks that are current (pure).

Most members are current: position and record are there, valid, and of the due tick. Their blocks
are made without a look at each; ``judgement`` decides about all others, one by one. Both must agree,
as checked by ``tests/acquisition/snapshot/test_unchanged.py``.

``_heads.c`` splits the headers in one call if it could be compiled (``acquisition.compiled``), at a
tenth of the cost of numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition import compiled
from acquisition.model import ticks
from acquisition.snapshot.reading.positions import PositionTable
from acquisition.snapshot.reading.records import Due
from acquisition.snapshot.values.block import Block
from acquisition.wire.records import smoothed

Bools = npt.NDArray[np.bool_]

_NUMPY_CODES = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8", "q": "<i8", "f": "<f4", "d": "<f8"}


def dtype_of(fields: Sequence[tuple[str, str]]) -> np.dtype[np.void]:
    """The dtype of a header described as (name, struct code)."""
    return np.dtype([(name, _NUMPY_CODES.get(code, f"V{code[:-1]}")) for name, code in fields])


HEAD = dtype_of(smoothed.HEADER_FIELDS)
_SIZE = smoothed.HEADER_SIZE
_MOST_TICKS = 1 << 62

#: (values, oldest version, newest version) -> (headers, a byte 1 for each valid one, ids)
_TakeApart = Callable[[list[bytes | None], int, int], tuple[bytes, bytes, list[bytes]]]


class Heads(NamedTuple):
    """``fields`` (N,) are the headers, zeros if a value is too short; ``sound`` (N,) is True for records that pass
    ``smoothed.check``, ``ids`` are the rows of these, b"" for others."""

    fields: npt.NDArray[np.void]
    sound: Bools
    ids: list[bytes]


def heads_of(values: list[bytes | None]) -> Heads:
    """Headers of values, or None."""
    if _NATIVE is None:
        return defined(values)
    fields, sound, ids = _NATIVE(values, smoothed.VERSIONS[0], smoothed.VERSIONS[-1])
    return Heads(np.frombuffer(fields, HEAD), np.frombuffer(sound, np.bool_), ids)


def defined(values: list[bytes | None]) -> Heads:
    """The same with numpy: the definition."""
    known = [value or b"" for value in values]
    fields = np.frombuffer(b"".join([value[:_SIZE].ljust(_SIZE, b"\0") for value in known]), HEAD)
    sound = _sound(fields, known)
    first = _SIZE + fields["inputs_size"].astype(np.int64)
    last = np.where(sound, first + 8 * fields["entities"].astype(np.int64), 0)
    ids = [value[low:high] for value, low, high in zip(known, first.tolist(), last.tolist(), strict=True)]
    return Heads(fields, sound, ids)


def _sound(heads: npt.NDArray[np.void], values: list[bytes]) -> Bools:
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


def due_ticks(intervals: npt.NDArray[np.float64], due: Due) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Exact interval and due tick of every host; 0 if ``intervals`` is invalid."""
    exact, tick = np.zeros(len(intervals)), np.zeros(len(intervals), np.int64)
    even = len(intervals) > 0 and bool((intervals == intervals[0]).all())
    for each in intervals[:1].tolist() if even else np.unique(intervals).tolist():
        if 0.0 < each < float("inf") and abs(newest := due.tick(ticks.exact_interval(each))) < _MOST_TICKS:
            here = intervals == each
            exact[here], tick[here] = ticks.exact_interval(each), newest
    return exact, tick


class Judged(NamedTuple):
    """Records of all members of ``table``, in its order: ``good`` (N,) marks the current ones, ``ids`` are their
    rows, ``heads`` (N,) the headers."""

    table: PositionTable
    values: Sequence[bytes | None]
    heads: npt.NDArray[np.void]
    intervals: npt.NDArray[np.float64]
    good: Bools
    ids: Sequence[bytes]

    def current(self, rows: Sequence[int] | None = None) -> dict[int, Block]:
        """Current blocks by row: in the order of ``rows``, else all."""
        wanted = np.arange(len(self.good)) if rows is None else np.asarray(rows, np.intp)
        wanted = wanted[self.good[wanted]]
        heads, chosen = self.heads[wanted], wanted.tolist()
        times = (heads[name].tolist() for name in ("tick", "wall", "filtered"))
        columns = (heads["schema"].tolist(), self.intervals[wanted].tolist(), *times)
        members, data, values, ids = self.table.members, self.table.data, self.values, self.ids
        return {
            row: Block.current(members[row], data[row], values[row] or b"", ids[row], *own)
            for row, *own in zip(chosen, *columns, strict=True)
        }

    def rows_unlike(self, other: Judged) -> set[int] | None:
        """Rows with other rows or columns; None if not all are current in both, or members differ."""
        if self.table.members is not other.table.members or not (self.good.all() and other.good.all()):
            return None
        found = set(np.flatnonzero(self.heads["schema"] != other.heads["schema"]).tolist())
        if self.ids != other.ids:
            found |= {row for row, pair in enumerate(zip(self.ids, other.ids, strict=True)) if pair[0] != pair[1]}
        return found


def judge(table: PositionTable, records: list[bytes | None], due: Due, newest: bool = False) -> Judged:
    """Find the current members; ``records`` were read for each member: of the due tick, or with ``newest`` of
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


def _load() -> _TakeApart | None:
    if compiled.switched_off():
        return None
    try:
        module = import_module("acquisition.snapshot._heads")
    except ImportError:
        return None
    compiled.agree(compiled.complete(module, "take_apart"), smoothed.in_c())
    found: _TakeApart = module.take_apart
    return found


_NATIVE = _load()
