"""Holders: the worker with the lease of a partition, and the operator.

The value of ``lease:{tag}`` and the members of ``workers:{tag}``: ``<id> <milliseconds> <name> [<step> [<figures>]]``,
the worker's random id, the lifetime of its leases without renewal, its name for people, its kind of step (``native``
or ``numpy``), and a checksum of the figures to compute.

The value of ``shardpulse:operating`` is JSON with the fields of ``Operating``: people may have to read it without
any tool of shardpulse.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from acquisition.errors import FrameError

_HOLDER = re.compile(rb"([0-9a-f]{16}) ([0-9]{1,9}) (\S{1,255})(?: (native|numpy)(?: ([0-9a-f]{8}))?)?")
_TOKEN = re.compile(r"[0-9a-f]{16}")


class Holder(NamedTuple):
    """A filter worker; ``name`` has no blanks. ``step`` and ``figures`` are "" if not reported; without ``step``
    there are no ``figures``."""

    id: str
    milliseconds: int
    name: str
    step: str = ""
    figures: str = ""


def encode(holder: Holder) -> bytes:
    """Bytes of a holder."""
    return f"{holder.id} {holder.milliseconds} {holder.name} {holder.step} {holder.figures}".rstrip().encode()


def decode(data: bytes) -> Holder:
    """Holder in ``data``. Raises FrameError if it is invalid."""
    found = _HOLDER.fullmatch(data)
    if found is None:
        raise FrameError("payload", f"invalid lease {data[:60]!r}")
    step, figures = ((part or b"").decode() for part in found.groups()[3:])
    return Holder(found[1].decode(), int(found[2]), found[3].decode(errors="replace"), step, figures)


class Operating(NamedTuple):
    """``token`` identifies the command, ``what`` describes it, ``since_ms`` is its start, by its machine's clock."""

    token: str
    user: str
    host: str
    pid: int
    what: str
    since_ms: int


def encode_note(note: Operating) -> bytes:
    """Bytes of a note."""
    return json.dumps(note._asdict()).encode()


def decode_note(data: bytes) -> Operating:
    """Note in ``data``. Raises FrameError if it is invalid."""
    try:
        found = json.loads(data)
        values = [found[name] for name in Operating._fields]
    except (ValueError, TypeError, KeyError) as error:
        raise FrameError("payload", f"invalid cluster lock {data[:60]!r}") from error
    note = Operating(*values)
    words = (note.token, note.user, note.host, note.what)
    numbers = (note.pid, note.since_ms)
    if not all(isinstance(one, str) for one in words) or not all(type(one) is int for one in numbers):
        raise FrameError("payload", f"{data[:60]!r} names no operator")
    if not _TOKEN.fullmatch(note.token) or not 0 <= note.since_ms < 1 << 47:
        raise FrameError("payload", f"{data[:60]!r} names no operator")
    return note
