"""Archive books of a partition: samples in the database, and samples missing.

``archived:{tag}`` holds a byte of version and then, for each (host, resource set), the fields of ``Archived`` as
little-endian unsigned numbers: host, epoch and the counts of 64 bits, the resource set of 32.
``tests/acquisition/wire/test_archived.py`` holds golden bytes and round trips.
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
    ``made = archived + gap + pending`` at every moment. ``made`` is by its sender's count in the frames, the others are
    counted by the archive itself."""

    host: int
    resource_set: int
    epoch: int  #: the one that reported last
    reached: int  #: made in this epoch with its newest frame that was read
    made: int
    archived: int  #: durable
    gap: int  #: that never will be
    pending: int  #: in memory alone, or of frames that are missing and may still come

    @property
    def difference(self) -> int:
        """Made less what became of it: 0 when the books balance."""
        return self.made - self.archived - self.gap - self.pending


def unread(row: Archived, epoch: int, made: int) -> int:
    """Samples of which the archive has not read anything: ``made`` of ``epoch`` by the books of the pipeline."""
    return max(0, made - row.reached) if epoch == row.epoch else 0


def encode(rows: Iterable[Archived]) -> bytes:
    """The value of the key; what is more than its field holds is written as the most."""
    return bytes([VERSION]) + b"".join([_ROW.pack(*[min(max(one, 0), _MOST) for one in row]) for row in rows])


def decode(data: bytes) -> list[Archived]:
    """The rows in ``data``. Raises FrameError if it is invalid."""
    if not data or data[0] != VERSION or (len(data) - 1) % _ROW.size:
        raise FrameError("payload", f"invalid archive record {data[:80]!r}")
    return [Archived(*row) for row in _ROW.iter_unpack(memoryview(data)[1:])]
