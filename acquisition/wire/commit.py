"""The commit of a partition: what its filter worker last wrote, and how far it had read then.

``<id> <cursor> <rejected>[ <fair share>]`` is the value of ``commit:{tag}``; words that follow are of a newer
version, and readers pass over them. ``tests/acquisition/wire/test_commit.py`` holds golden bytes and a round trip.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from acquisition.errors import FrameError
from acquisition.wire.frame import MOST_COUNTED
from acquisition.wire.stream_id import is_possible

_COMMIT = re.compile(rb"(\w*) (\d{1,20}-\d{1,20}) (\d{1,20})(?: (\d{1,20}))?(?: .*)?", re.DOTALL)
#: What finds ``id_of`` a value, as a pattern of Lua: for scripts that run in a shard.
LUA_ID = "^[^ ]*"


class Commit(NamedTuple):
    """``id`` is fresh and random in every commit; ``cursor`` is the newest entry of the raw stream that it covers.

    ``rejected`` counts the entries that were rejected since the stream began. ``fair_share`` in
    samples/s is the limit above which probes shed (``filters.worker.loop.fair_share``); 0: none.
    """

    id: bytes
    cursor: bytes
    rejected: int
    fair_share: int = 0


def encode(commit: Commit) -> bytes:
    """The bytes of a commit."""
    return b"%b %b %d" % commit[:3] + (b" %d" % commit.fair_share if commit.fair_share else b"")


def decode(data: bytes) -> Commit:
    """The commit in ``data``. Raises FrameError if it is invalid."""
    found = _COMMIT.fullmatch(data)
    if found is None or not is_possible(found[2]) or max(int(found[3]), int(found[4] or 0)) >= MOST_COUNTED:
        raise FrameError("payload", f"{data[:80]!r} is no commit")
    return Commit(found[1], found[2], int(found[3]), int(found[4] or 0))


def id_of(data: bytes | None) -> bytes:
    """The id of a commit that need not be sound, b"" if absent."""
    return b"" if data is None else data.partition(b" ")[0]
