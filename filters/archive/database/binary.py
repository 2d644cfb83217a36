"""Binary rows of PostgreSQL: ``COPY … WITH (FORMAT binary)``, both directions.

Source: the section "Binary Format" of PostgreSQL's documentation of COPY, and ``array_send`` for arrays. Arrays of
thousands of numbers go through numpy; as text they cost the client and the server several times as much.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any

import numpy as np
import numpy.typing as npt

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_NULL = struct.pack(">i", -1)
_LENGTH = struct.Struct(">i")
_COUNT = struct.Struct(">h")
_ARRAY = struct.Struct(">iiIii")  #: dimensions, has nulls, type of elements, length, lower bound
_NUMBERS = {kind: struct.Struct(f">i{kind}") for kind in "qdih?"}
_NUMPY = {"q": "i8", "d": "f8", "i": "i4", "h": "i2", "?": "?"}
_OIDS = {"f4": 700, "i2": 21, "i8": 20}

#: A row in SQL's types: signed numbers, escaped text, one-dimensional arrays.
Row = tuple[Any, ...]


def encode(kinds: Sequence[str], rows: Iterable[Row]) -> bytes:
    """Rows with columns of these kinds: ``q d i h ?`` as in struct, ``t`` text, ``b`` bytes, ``f4 i2 i8`` arrays."""
    columns = list(zip(*rows, strict=True))
    if not columns:
        return _HEADER + _TRAILER
    parts = [[_COUNT.pack(len(kinds))] * len(columns[0])]
    pairs = zip(kinds, columns, strict=True)
    for together, group in groupby(pairs, lambda pair: pair[0] in _NUMBERS and None not in pair[1]):
        beside = tuple(group)
        parts += [_pack_together(beside)] if together else [_pack_each(*pair) for pair in beside]
    return b"".join((_HEADER, *chain.from_iterable(zip(*parts, strict=True)), _TRAILER))


def decode(kinds: Sequence[str], data: bytes) -> Iterator[Row]:
    """Rows in the output of ``COPY … TO``."""
    unpackers = [_unpacker(kind) for kind in kinds]
    at = len(_HEADER)
    while _COUNT.unpack_from(data, at)[0] >= 0:
        at += _COUNT.size
        row = []
        for unpack in unpackers:
            (size,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size
            row.append(None if size < 0 else unpack(data[at : at + size]))
            at += max(size, 0)
        yield tuple(row)


def _pack_together(columns: Sequence[tuple[str, tuple[Any, ...]]]) -> list[bytes]:
    """Adjacent columns of numbers, by row: many times faster than number by number."""
    fields = [(f"{what}{n}", kind) for n, (code, _) in enumerate(columns)
              for what, kind in (("size", ">i4"), ("value", f">{_NUMPY[code]}"))]  # fmt: skip
    made = np.empty(len(columns[0][1]), fields)
    for n, (_, values) in enumerate(columns):
        made[f"size{n}"] = made.dtype[f"value{n}"].itemsize
        made[f"value{n}"] = values
    data, size = made.tobytes(), made.itemsize
    return [data[at : at + size] for at in range(0, len(data), size)]


def _pack_each(kind: str, values: tuple[Any, ...]) -> list[bytes]:
    pack = _packer(kind)
    return [_NULL if value is None else pack(value) for value in values]


def _packer(kind: str) -> Callable[[Any], bytes]:
    if kind in _NUMBERS:
        pack, size = _NUMBERS[kind].pack, _NUMBERS[kind].size - _LENGTH.size
        return lambda value: pack(size, value)
    if kind == "t":
        return _pack_text
    if kind == "b":
        return lambda value: _LENGTH.pack(len(value)) + value
    element = np.dtype([("size", ">i4"), ("value", f">{kind}")])
    return lambda value: _pack_array(value, element, _OIDS[kind])


def _pack_text(text: str) -> bytes:
    data = text.encode()
    return _LENGTH.pack(len(data)) + data


def _pack_array(values: npt.NDArray[Any], element: np.dtype[Any], oid: int) -> bytes:
    made = np.empty(values.size, element)
    made["size"] = element["value"].itemsize
    made["value"] = values.ravel()
    return _LENGTH.pack(_ARRAY.size + made.nbytes) + _ARRAY.pack(1, 0, oid, values.size, 1) + made.tobytes()


def _unpacker(kind: str) -> Callable[[bytes], Any]:
    if kind in _NUMBERS:
        number = struct.Struct(f">{kind}")
        return lambda data: number.unpack(data)[0]
    if kind == "t":
        return bytes.decode
    if kind == "b":
        return bytes
    element = np.dtype([("size", ">i4"), ("value", f">{kind}")])
    return lambda data: np.frombuffer(data, element, offset=_ARRAY.size)["value"].astype(kind)
