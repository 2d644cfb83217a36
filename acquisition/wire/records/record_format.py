"""Record format: versions in which filters write their records.

The layout in the shards names one format (``acquisition.wire.layout``). Software supports two, the newest and the
previous one (none so far: the first release will be the first of two): it reads the
records of both and writes those of the named format. So old and new filters and readers
work on the same shards, until ``shardpulse shards upgrade`` names the newest. A change of the bytes of a record
adds a format here, keeps golden bytes of every version, and drops the oldest format.
"""

from __future__ import annotations

from typing import NamedTuple

from acquisition.errors import ConfigError


class Versions(NamedTuple):
    """Version of each record in one format."""

    smoothed: int  #: decision inputs included
    recent: int


#: The known formats.
FORMATS = {3: Versions(smoothed=2, recent=2)}
NEWEST = max(FORMATS)


def versions(number: int) -> Versions:
    """Versions of a record format. Raises ConfigError for an unknown one."""
    if number not in FORMATS:
        known = " and ".join(map(str, FORMATS))
        raise ConfigError(
            f"the shards hold records of format {number}, this version of shardpulse supports {known}: install "
            + (
                "a newer one here"
                if number > NEWEST
                else "the intermediate versions on every machine first, one by one"
            )
        )
    return FORMATS[number]


def known(record: str) -> tuple[int, ...]:
    """Supported versions of a record, named as in Versions, oldest first."""
    return tuple(sorted({getattr(each, record) for each in FORMATS.values()}))
