"""The headers of many smoothed records side by side: which of them are sound, and who their rows are (pure).

``_heads.c`` does the same in one call where it could be compiled (``acquisition.compiled``): it costs a tenth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition import compiled
from acquisition.wire.records import smoothed

Bools = npt.NDArray[np.bool_]

_NUMPY_CODES = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8", "q": "<i8", "f": "<f4", "d": "<f8"}


def dtype_of(fields: Sequence[tuple[str, str]]) -> np.dtype[np.void]:
    """The dtype of a header that is described as (name, struct code)."""
    return np.dtype([(name, _NUMPY_CODES.get(code, f"V{code[:-1]}")) for name, code in fields])


HEAD = dtype_of(smoothed.HEADER_FIELDS)
_SIZE = smoothed.HEADER_SIZE

#: (values, oldest version, newest version) -> (headers, a byte 1 for each that is sound, ids)
_TakeApart = Callable[[list[bytes | None], int, int], tuple[bytes, bytes, list[bytes]]]


class Heads(NamedTuple):
    """``fields`` (N,) are the headers, zeros where a value is too short; ``sound`` (N,) says where ``smoothed.check``
    finds a record, ``ids`` are the rows of these, b"" of others."""

    fields: npt.NDArray[np.void]
    sound: Bools
    ids: list[bytes]


def heads_of(values: list[bytes | None]) -> Heads:
    """The headers of values, or None."""
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
