"""Who changes the cluster: the value of ``shardpulse:operating``.

JSON with the fields of ``Operating``: people may have to read it when nothing else of shardpulse is at hand.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from acquisition.errors import FrameError

_TOKEN = re.compile(r"[0-9a-f]{16}")


class Operating(NamedTuple):
    """``token`` is the command's own, ``what`` its words, ``since_ms`` when it began, by its machine's clock."""

    token: str
    user: str
    host: str
    pid: int
    what: str
    since_ms: int


def encode(note: Operating) -> bytes:
    """The bytes of a note."""
    return json.dumps(note._asdict()).encode()


def decode(data: bytes) -> Operating:
    """The note in ``data``. Raises FrameError if it is invalid."""
    try:
        found = json.loads(data)
        values = [found[name] for name in Operating._fields]
    except (ValueError, TypeError, KeyError) as error:
        raise FrameError("payload", f"{data[:60]!r} names no operator") from error
    note = Operating(*values)
    words = (note.token, note.user, note.host, note.what)
    numbers = (note.pid, note.since_ms)
    if not all(isinstance(one, str) for one in words) or not all(type(one) is int for one in numbers):
        raise FrameError("payload", f"{data[:60]!r} names no operator")
    if not _TOKEN.fullmatch(note.token) or not 0 <= note.since_ms < 1 << 47:
        raise FrameError("payload", f"{data[:60]!r} names no operator")
    return note
