"""An entry that the filter rejected: its reason lies in the stream ``rejected:{tag}``, its bytes, which may be
those of any host, in ``refused:{tag}``: probes read the one and not the other.

``tests/acquisition/wire/test_rejected.py`` holds its golden fields and a round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from acquisition.errors import FrameError

KEPT = 1000  #: entries of a stream, about
SIGNATURE = "signature"  #: the reason of a frame that its host has not signed (acquisition.wire.signature)
LIMIT = "limit"  #: the reason of a frame that takes its host beyond a limit (acquisition.wire.limits)
_MOST_BYTES = 4096


class Rejected(NamedTuple):
    """``entry`` is its id in the raw stream, ``reason`` that of a FrameError, ``message`` says it to people."""

    entry: bytes
    reason: str
    message: str


def encode(rejected: Rejected) -> tuple[bytes | str, ...]:
    """The fields of a stream entry, names and values in turn."""
    entry, reason, message = rejected
    return "entry", entry, "reason", reason, "message", message


def encode_bytes(entry: bytes, fields: Sequence[object] | None) -> tuple[bytes | str, ...]:
    """The same of the stream of bytes: the fields of the entry in the raw stream, joined by blanks and cut."""
    joined = b" ".join(field if isinstance(field, bytes) else str(field).encode() for field in fields or ())
    return "entry", entry, "data", joined[:_MOST_BYTES]


def decode(fields: Sequence[bytes]) -> Rejected:
    """What the fields of a stream entry say; the message may be absent. Raises FrameError when they are
    none of a filter's."""
    try:
        named = dict(zip(fields[::2], fields[1::2], strict=True))
        entry, reason = named[b"entry"], named[b"reason"].decode(errors="replace")
        return Rejected(entry, reason, named.get(b"message", b"").decode(errors="replace"))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise FrameError("payload", f"not a rejected entry: {error!r}") from error
