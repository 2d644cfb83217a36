"""Archive books of a partition: samples in the database, and samples missing.

``archived:{tag}`` holds a byte of version and then, for each (host, resource set), the fields of ``Archived`` as
little-endian unsigned numbers: host, epoch and the counts of 64 bits, the resource set of 32.
``tests/acquisition/wire/test_archived.py`` contains golden bytes and round trips.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from acquisition.errors import FrameError

VERSION = 1
_ROW = struct.Struct("<QIQ5Q")
_MOST = (1 << 64) - 1


class Archived(NamedTuple):
    """One resource set of a host; in samples since the archive saw its first frame, of all its epochs:
    ``made = archived + gap + pending`` at every moment. ``made`` is its sender's count in the frames, the others are
    counted by the archive itself."""

    host: int
    resource_set: int
    epoch: int  #: the last one reported
    reached: int  #: made in this epoch up to its newest frame read
    made: int
    archived: int  #: durable
    gap: int  #: never to be archived
    pending: int  #: in memory alone, or of missing frames that may still arrive

    @property
    def difference(self) -> int:
        """Samples made minus those accounted for: 0 if the books balance."""
        return self.made - self.archived - self.gap - self.pending


def unread(row: Archived, epoch: int, made: int) -> int:
    """Samples not yet read at all by the archive: ``made`` of ``epoch`` is from the books of the pipeline."""
    return max(0, made - row.reached) if epoch == row.epoch else 0


def encode(rows: Iterable[Archived]) -> bytes:
    """Value of the key; a number too large for its field is written as the largest possible."""
    return bytes([VERSION]) + b"".join([_ROW.pack(*[min(max(one, 0), _MOST) for one in row]) for row in rows])


def decode(data: bytes) -> list[Archived]:
    """Rows in ``data``. Raises FrameError if it is invalid."""
    if not data or data[0] != VERSION or (len(data) - 1) % _ROW.size:
        raise FrameError("payload", f"invalid archive record {data[:80]!r}")
    return [Archived(*row) for row in _ROW.iter_unpack(memoryview(data)[1:])]
