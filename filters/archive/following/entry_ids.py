"""Ids of stream entries next to a given one: where reading continues."""

from __future__ import annotations

from acquisition.wire.stream_id import parse

START = b"0-0"


def after(entry: bytes) -> bytes:
    """The next id after ``entry``."""
    milliseconds, number = parse(entry)
    return b"%d-%d" % (milliseconds, number + 1)


def before(entry: bytes) -> bytes:
    """The id before ``entry``: reading from it returns ``entry`` first."""
    milliseconds, number = parse(entry)
    if number > 0:
        return b"%d-%d" % (milliseconds, number - 1)
    return b"%d-%d" % (milliseconds - 1, (1 << 64) - 1) if milliseconds > 0 else START
