"""Very many records at once as numpy arrays (pure).

Decoding a record costs microseconds, however little of it is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from acquisition.snapshot.column import Bools
from acquisition.wire import position

_NUMPY_CODES = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8", "q": "<i8", "f": "<f4", "d": "<f8"}


def dtype_of(fields: Sequence[tuple[str, str]]) -> np.dtype[np.void]:
    """The dtype of a header that is described as (name, struct code)."""
    return np.dtype([(name, _NUMPY_CODES.get(code, f"V{code[:-1]}")) for name, code in fields])


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
