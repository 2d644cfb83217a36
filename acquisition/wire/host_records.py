"""The records of hosts' own figures side by side: one value for the hosts of a partition in one slot.

``hosts:{tag}:SLOT`` says nothing that the records under their own keys (``acquisition.wire.smoothed``) do not say: it
is there so that a list of ten thousand hosts is one GET per partition. Whoever writes a record of which it holds an
older one deletes it in the same transaction, so what it holds is what lies under the own keys. It need not hold all
hosts, and need not be there.

Layout (little-endian)::

    magic    4 bytes
    count    uint32
    sizes    count x uint32, bytes
    records  one behind the other

``tests/acquisition/wire/test_host_records_wire.py`` holds golden bytes and a round trip.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError

MAGIC = b"SPHR"
FEWEST = 8  #: hosts of a partition, from which on they are written side by side
_HEADER = struct.Struct("<4sI")


def encode(records: Sequence[bytes]) -> bytes:
    """The value that holds these records."""
    sizes = np.array(list(map(len, records)), "<u4").tobytes()
    return b"".join((_HEADER.pack(MAGIC, len(records)), sizes, *records))


class Joint(NamedTuple):
    """A decoded value: records of these ``sizes`` (k,) in bytes lie in ``data`` from ``start`` on."""

    data: bytes
    start: int
    sizes: npt.NDArray[np.uint32]

    @property
    def size(self) -> int:
        """The size that all records have; 0 where they differ, or there are none."""
        sizes = self.sizes
        return int(sizes[0]) if len(sizes) and sizes.min() == sizes.max() else 0

    def records(self) -> list[bytes]:
        """Each of them."""
        ends = (self.sizes.cumsum(dtype=np.int64) + self.start).tolist()
        return [self.data[low:high] for low, high in zip([self.start, *ends], ends, strict=False)]


def first_size(data: bytes) -> int:
    """The size of the first record in ``data`` by what stands in its place, whatever ``data`` is."""
    return int.from_bytes(data[_HEADER.size : _HEADER.size + 4], "little")


def even_head(length: int, size: int) -> bytes:
    """What stands before the records in a value of this ``length`` if all of them have one ``size``; b"" where no value
    of that length has."""
    count, rest = divmod(length - _HEADER.size, size + 4)
    return _HEADER.pack(MAGIC, count) + size.to_bytes(4, "little") * count if size and count > 0 and not rest else b""


def split(data: bytes) -> list[bytes]:
    """The records in ``data``, fast where they have one size. Raises FrameError when it is none."""
    size = first_size(data)
    head = even_head(len(data), size)
    if head and data.startswith(head):
        return [data[at : at + size] for at in range(len(head), len(data), size)]
    return decode(data).records()


def decode(data: bytes) -> Joint:
    """The value in ``data``, whose records need not be sound. Raises FrameError when it is none."""
    if len(data) < _HEADER.size:
        raise FrameError("short", f"{len(data)} bytes are no records of hosts")
    magic, count = _HEADER.unpack_from(data)
    start = _HEADER.size + 4 * count
    if magic != MAGIC or len(data) < start:
        raise FrameError("magic" if magic != MAGIC else "short", f"{len(data)} bytes are no records of hosts")
    sizes = np.frombuffer(data, "<u4", count, _HEADER.size)
    if start + int(sizes.sum(dtype=np.int64)) != len(data):
        raise FrameError("shape", f"{count} records of hosts do not fit {len(data)} bytes")
    return Joint(data, start, sizes)
