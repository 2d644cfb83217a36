"""Persisted state of an archived partition: bytes of ``partitions.state``.

One byte of version, then zlib-compressed msgpack of ``[closed, [archived, gap], [set, …], returned]``; a set is
``[host, resource set, numbers, archived, gap, made, episodes, inventory]``, each as returned by its ``document``.
Arrays are little-endian bytes: an entity takes 24 before compression.
``tests/filters/archive/test_state.py`` holds golden bytes and round trips.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import msgspec

from filters.archive.database.errors import ArchiveDamaged

VERSION = 2
#: Maximum size of a state in bytes: ten million entities in one partition.
MOST = 256 << 20
_LEVEL = 1  #: ids do not compress, everything else does at any level


class State(NamedTuple):
    """``past``: archived samples and gaps of forgotten sets; ``sets`` as ``ResourceSet.document``."""

    closed: int = 0  #: minutes that begin before it are closed
    past: tuple[int, int] = (0, 0)
    sets: tuple[list[Any], ...] = ()
    returned: bytes = b""  #: the entry the database had reached before its last return to an older state


def encode(state: State) -> bytes:
    """Encode a state as bytes."""
    return bytes([VERSION]) + zlib.compress(msgspec.msgpack.encode(state), _LEVEL)


def decode(data: bytes) -> State:
    """State in ``data``; an empty one for no bytes. Raises ArchiveDamaged."""
    if not data:
        return State()
    if data[0] != VERSION:
        raise ArchiveDamaged(f"partition state version {data[0]} is not supported (supported: {VERSION})")
    try:
        whole = zlib.decompressobj()
        text = whole.decompress(data[1:], MOST)
        if whole.unconsumed_tail:
            raise ArchiveDamaged(f"partition state exceeds {MOST} bytes")
        return msgspec.msgpack.decode(text, type=State)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ArchiveDamaged(f"damaged partition state: {error}") from error
