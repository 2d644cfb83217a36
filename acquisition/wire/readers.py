"""Registered readers of a raw stream beside the filter, and their cursors.

``readers:{tag}`` is a hash: name -> ``<cursor> <expires>[ <until> <archived> <gap> <open>[ <trouble>]]``. ``cursor``
is the newest entry that the reader no longer needs; it is written once the reader's results from all earlier ones are
durable. ``expires`` is the end of its claim, in milliseconds since 1970 by the shard's clock. Everything up to
``until``, by the same clock, has been read; then come its books: samples that are durable, that never will be, and
that are in memory alone. ``trouble`` is text about what blocks it.

``cut:{tag}`` is the mark of a trim that did not wait for a living reader, ``<first> <entries>``:
entries before ``first`` are gone, and ``entries`` is how many went with the newest such trim.
``tests/acquisition/wire/test_readers.py`` contains golden bytes and round trips.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from acquisition.errors import FrameError
from acquisition.wire.stream_id import is_possible, parse

_BOOKS = re.compile(rb"(\d{1,16}) (\d{1,16}) (\d{1,16}) (\d{1,16})(?: (.*))?", re.DOTALL)
_MOST_TROUBLE = 200  #: bytes of text
_ENTRY_AND_NUMBER = re.compile(rb"(\d{1,20}-\d{1,20}) (\d{1,16})(?: (.*))?", re.DOTALL)


class Reader(NamedTuple):
    """Claim of a reader; ``expires`` and ``until`` in milliseconds, then three numbers of samples; ``trouble`` is
    "" if nothing blocks it."""

    cursor: bytes
    expires: int
    until: int = 0
    archived: int = 0
    gap: int = 0
    open: int = 0
    trouble: str = ""


class Cut(NamedTuple):
    """Entries trimmed before a live reader had read them: those before ``first``; ``entries`` of them with the newest
    trim."""

    first: bytes
    entries: int


def encode(reader: Reader) -> bytes:
    """Value of a reader's field."""
    trouble = reader.trouble.encode(errors="replace")[:_MOST_TROUBLE]
    return b"%b %d %d %d %d %d" % reader[:6] + (b" " + trouble if trouble else b"")


def decode(data: bytes) -> Reader:
    """Claim in ``data``. Raises FrameError if it is invalid."""
    cursor, expires, rest = _parse(data, "claim of a reader")
    books = _BOOKS.fullmatch(rest)
    if books is None:
        return Reader(cursor, expires)
    until, archived, gap, waiting = map(int, books.groups()[:4])
    return Reader(cursor, expires, until, archived, gap, waiting, (books[5] or b"").decode(errors="replace"))


def encode_cut(cut: Cut) -> bytes:
    """Bytes of a mark."""
    return b"%b %d" % cut


def decode_cut(data: bytes) -> Cut:
    """Mark in ``data``. Raises FrameError if it is invalid."""
    return Cut(*_parse(data, "mark of a cut")[:2])


def _parse(data: bytes, what: str) -> tuple[bytes, int, bytes]:
    found = _ENTRY_AND_NUMBER.fullmatch(data)
    if found is None or not is_possible(found[1]):
        raise FrameError("payload", f"invalid {what} {data[:80]!r}")
    return found[1], int(found[2]), found[3] or b""


def milliseconds(clock: Sequence[bytes]) -> int:
    """The shard's clock in the reply to TIME."""
    return int(clock[0]) * 1000 + int(clock[1]) // 1000


def oldest_claim(fields: Sequence[Any], clock: Sequence[bytes]) -> bytes | None:
    """Oldest cursor of the living readers, from the replies to HGETALL and TIME; None: no reader waits for anything.

    An invalid field holds nothing back.
    """
    now = milliseconds(clock)
    cursors = []
    for value in fields[1::2]:
        try:
            reader = decode(value)
        except FrameError:
            continue
        if reader.expires > now:
            cursors.append(reader.cursor)
    return min(cursors, key=parse, default=None)
