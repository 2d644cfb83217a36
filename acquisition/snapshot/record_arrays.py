"""Very many records at once as numpy arrays: those of equal length lie side by side in one (pure).

Decoding a record costs microseconds, however little of it is wanted; of ten thousand hosts a list of the hot
ones looks at a handful of numbers each, and at the whole record only where something is unusual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.snapshot.column import Bools
from acquisition.wire import position

Rows = npt.NDArray[np.intp]
Bytes = npt.NDArray[np.uint8]

_NUMPY_CODES = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8", "q": "<i8", "f": "<f4", "d": "<f8"}


def dtype_of(fields: Sequence[tuple[str, str]]) -> np.dtype[np.void]:
    """The dtype of a header that is described as (name, struct code)."""
    return np.dtype([(name, _NUMPY_CODES.get(code, f"V{code[:-1]}")) for name, code in fields])


def offset_of(dtype: np.dtype[np.void], name: str) -> int:
    """Where a field lies, in bytes."""
    assert dtype.fields is not None
    offset: int = dtype.fields[name][1]
    return offset


#: A position record (acquisition.wire.position); ``counts`` is what this module does not look at.
POSITION = np.dtype(
    [
        ("version", "u1"), ("flags", "u1"), ("gaps", "<u2"), ("interval", "<f4"), ("epoch", "<u8"),
        ("sequence", "<u8"), ("tick", "<i8"), ("wall", "<f8"), ("counts", "<u8", (9,)), ("lost_tick", "<i8"),
    ]
)  # fmt: skip


def positions_of(data: Sequence[bytes]) -> tuple[npt.NDArray[np.void], Bools]:
    """Position records of dtype POSITION (N,), and which of them are sound and of this version."""
    size = POSITION.itemsize
    whole = np.fromiter(map(len, data), np.intp, len(data)) == size
    if not whole.all():
        data = [each if len(each) == size else bytes(size) for each in data]
    records = np.frombuffer(b"".join(data), POSITION, len(data))
    return records, whole & are_positions(records)


def are_positions(records: npt.NDArray[np.void]) -> Bools:
    """Which of POSITION records are sound and of this version, (N,)."""
    counts = records["counts"].max(axis=1, initial=0) | records["sequence"]
    good = (records["version"] == position.VERSION) & (counts < position.MOST)
    good &= np.isfinite(records["wall"]) & (records["interval"] >= 0) & np.isfinite(records["interval"])
    return np.asarray(good)


class Group(NamedTuple):
    """Values of one length: ``rows`` (k,) says which they are, ``data`` (k, length) are their bytes."""

    rows: Rows
    data: Bytes

    def heads(self, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
        """Their first bytes as records of ``dtype`` (k,)."""
        found: npt.NDArray[np.void] = np.ascontiguousarray(self.data[:, : dtype.itemsize]).view(dtype)[:, 0]
        return found

    def numbers(self, dtype: str, at: int) -> npt.NDArray[Any]:
        """The number that each of them has ``at`` this byte, (k,) of ``dtype``."""
        size = np.dtype(dtype).itemsize
        return np.ascontiguousarray(self.data[:, at : at + size]).view(dtype)[:, 0]

    def records(self) -> list[bytes]:
        """Each of them as bytes."""
        size, joined = self.data.shape[1], self.data.tobytes()
        return [joined[at : at + size] for at in range(0, len(joined), max(1, size))]

    def pick(self, chosen: Bools) -> Group:
        """Those of them that are chosen, (k,)."""
        return self if chosen.all() else Group(self.rows[chosen], self.data[chosen])


def groups_of(values: Sequence[bytes | None], least: int) -> Iterator[Group]:
    """The values by length; what is shorter than ``least`` bytes, or not there, is in none."""
    present = [value or b"" for value in values]
    lengths = np.fromiter(map(len, present), np.intp, len(present))
    for length in np.unique(lengths[lengths >= least]).tolist():
        rows = np.flatnonzero(lengths == length)
        chosen = present if len(rows) == len(present) else [present[row] for row in rows.tolist()]
        yield Group(rows, np.frombuffer(b"".join(chosen), np.uint8).reshape(len(rows), length))
