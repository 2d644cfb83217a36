"""The record format: in which versions filters write the records that readers and other filters read.

The layout in the shards names one format (``acquisition.wire.layout``). Software knows two, the newest and the one
before (as yet there is none that anybody has: the first that is released will be the first of two): it reads the
records of both and writes those of the format that is named. So old and new filters and readers
work on the same shards, until ``shardpulse shards upgrade`` names the newest. A change of the bytes of a record
adds a format here, keeps golden bytes of every version, and drops the oldest format.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from acquisition.errors import ConfigError, FrameError


class Versions(NamedTuple):
    """The version of each record in one format."""

    smoothed: int  #: decision inputs included
    recent: int


#: The formats that are known.
FORMATS = {3: Versions(smoothed=2, recent=2)}
NEWEST = max(FORMATS)


def versions(number: int) -> Versions:
    """The versions of a record format. Raises ConfigError for one that is not known."""
    if number not in FORMATS:
        known = " and ".join(map(str, FORMATS))
        raise ConfigError(
            f"these shards hold records of format {number}, this version of shardpulse knows {known}: install "
            + ("a newer one here" if number > NEWEST else "the versions between on every machine first, one by one")
        )
    return FORMATS[number]


def known(record: str) -> tuple[int, ...]:
    """The versions of a record, named as in Versions, that are read, oldest first."""
    return tuple(sorted({getattr(each, record) for each in FORMATS.values()}))


def head_fields(what: str, data: bytes, layout: Struct, magic: bytes, read: tuple[int, ...]) -> tuple[Any, ...]:
    """The fields of the header at the start of ``data``, of which the first two are magic and version.

    Raises FrameError when ``data`` is too short, of other magic, or of a version that is not among those that are
    ``read``: "newer" for the next one, which a newer filter writes, "version" for others.
    """
    if len(data) < layout.size:
        raise FrameError("short", f"{len(data)} bytes are no {what}")
    fields = layout.unpack_from(data)
    if fields[0] != magic:
        raise FrameError("magic", f"starts with {fields[0]!r} instead of {magic!r}")
    if fields[1] not in read:
        reason = "newer" if fields[1] == read[-1] + 1 else "version"
        versions_read = " and ".join(map(str, read))
        raise FrameError(reason, f"{what} of version {fields[1]}, this reader knows {versions_read}")
    return fields
