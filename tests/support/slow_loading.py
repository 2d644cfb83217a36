"""Slow loading shard: answers LOADING while it reads its file.

It answers between so many bytes of the file: newer servers can be told how many, 6.2 takes two megabytes.
So the file must be large, also where few keys matter.
"""

from __future__ import annotations

import os

from acquisition.link.resp import Connection
from acquisition.shards.servers import redis_binary

_MEGABYTE = 1 << 20
_ANSWERS_OFTEN = {"loading-process-events-interval-bytes": "1024"}  #: since 7.0


def directives(microseconds: int) -> dict[str, str]:
    """For redis.conf: how long each key takes."""
    newer = _ANSWERS_OFTEN if redis_binary.find().release >= (7, 0) else {}
    return {"key-load-delay": str(microseconds), **newer}


def save_large(connection: Connection, tag: str) -> None:
    """Save what the shard holds and 16 megabytes that cannot be compressed, as keys with this hash tag."""
    for number in range(16):
        connection.call("SET", f"filler-{number}{{{tag}}}", os.urandom(_MEGABYTE))
    connection.call("SAVE")
