"""Ids of stream entries beside a given one: where reading goes on from."""

from __future__ import annotations

from acquisition.wire.stream_id import parse

START = b"0-0"


def after(entry: bytes) -> bytes:
    """The id next to ``entry``."""
    milliseconds, number = parse(entry)
    return b"%d-%d" % (milliseconds, number + 1)


def before(entry: bytes) -> bytes:
    """The id before ``entry``: what to read from so that it comes first."""
    milliseconds, number = parse(entry)
    if number > 0:
        return b"%d-%d" % (milliseconds, number - 1)
    return b"%d-%d" % (milliseconds - 1, (1 << 64) - 1) if milliseconds > 0 else START
