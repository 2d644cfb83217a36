"""Replies of very many values of one size, taken as they came: one array instead of an object for each value (pure).

A reply to HGETALL or MGET whose fields are known, and whose values all have one size, has every value at a place that
is known beforehand. What stands between them is compared with what must stand there: where anything else came, it is
no such reply, and the parser takes it apart as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt

from acquisition.link.batch import Batch

Bytes = npt.NDArray[np.uint8]


class EvenReply(NamedTuple):
    """``rows`` values of one ``size``: what stands ``first``, and before each of them (rows, h) or (1, h)."""

    first: bytes
    heads: Bytes
    rows: int
    size: int

    @classmethod
    def of_hash(cls, fields: Sequence[bytes], size: int) -> Self | None:
        """That of HGETALL; None where fields have no one size."""
        if len(set(map(len, fields))) > 1:
            return None
        heads = [b"$%d\r\n%s\r\n$%d\r\n" % (len(field), field, size) for field in fields]
        shape = len(heads), len(heads[0]) if heads else 0
        return cls(
            b"*%d\r\n" % (2 * len(fields)), np.frombuffer(b"".join(heads), np.uint8).reshape(shape), len(fields), size
        )

    @classmethod
    def of_list(cls, count: int, size: int) -> Self:
        """That of MGET."""
        return cls(b"*%d\r\n" % count, np.frombuffer(b"$%d\r\n" % size, np.uint8)[None], count, size)

    @property
    def length(self) -> int:
        """Of the whole reply, in bytes."""
        stride: int = self.heads.shape[1] + self.size + 2
        return len(self.first) + self.rows * stride

    def values(self, raw: memoryview, at: int) -> Bytes | None:
        """The values (rows, size) of the reply that begins ``at`` there; None where it is another one."""
        begin, head = at + len(self.first), self.heads.shape[1]
        if raw[at:begin] != self.first or at + self.length > len(raw):
            return None
        rows = np.frombuffer(raw, np.uint8, self.rows * (head + self.size + 2), begin)
        rows = rows.reshape(self.rows, -1) if self.rows else rows.reshape(0, head + self.size + 2)
        return rows[:, head : head + self.size] if bool((rows[:, :head] == self.heads).all()) else None


def values_of(batch: Batch, raw: Sequence[memoryview], replies: Sequence[EvenReply]) -> Bytes | None:
    """The values of all ``replies`` (one for each command of ``batch``) in their order, (N, size), copied out of what
    each shard has answered; None where any is another one."""
    found: list[Bytes | None] = [None] * len(replies)
    for route, answer in zip(batch.routes, raw, strict=True):
        at = 0
        for index in route.indexes:
            values = found[index] = replies[index].values(answer, at)
            if values is None:
                return None
            at += replies[index].length
        if at != len(answer):
            return None
    return np.concatenate([values for values in found if values is not None])


class RowBytes(Sequence[bytes]):
    """The rows of an array (N, size), each as bytes once somebody looks at it."""

    def __init__(self, rows: Bytes) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        return self._rows[at].tobytes() if isinstance(at, int) else [row.tobytes() for row in self._rows[at]]
