"""An entry that the filter has put aside, with the reason: what lies in the stream ``rejected:{tag}``.

``tests/acquisition/wire/test_rejected.py`` holds its golden fields and a round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from acquisition.errors import FrameError

KEPT = 1000  #: entries of a stream, about
_MOST_BYTES = 4096


class Rejected(NamedTuple):
    """``entry`` is its id in the raw stream, ``reason`` that of a FrameError, ``message`` says it to people;
    ``data`` are its fields, joined by blanks and cut."""

    entry: bytes
    reason: str
    message: str
    data: bytes


def encode(rejected: Rejected) -> tuple[bytes | str, ...]:
    """The fields of a stream entry, names and values in turn."""
    entry, reason, message, data = rejected
    return "entry", entry, "reason", reason, "message", message, "data", data[:_MOST_BYTES]


def decode(fields: Sequence[bytes]) -> Rejected:
    """What the fields of a stream entry say; message and data may be absent. Raises FrameError when they are
    none of a filter's."""
    try:
        named = dict(zip(fields[::2], fields[1::2], strict=True))
        entry, reason = named[b"entry"], named[b"reason"].decode(errors="replace")
        return Rejected(entry, reason, named.get(b"message", b"").decode(errors="replace"), named.get(b"data", b""))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise FrameError("payload", f"no entry that was put aside: {error!r}") from error
