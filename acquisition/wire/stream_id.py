"""Ids of stream entries: ``MS-SEQ``, the shard's clock in milliseconds and a running number."""

from __future__ import annotations


def parse(text: bytes) -> tuple[int, int]:
    """The two numbers of a stream id; anything else is before everything."""
    try:
        milliseconds, _, number = text.partition(b"-")
        return int(milliseconds), int(number)
    except ValueError:
        return -1, -1


def is_before(left: bytes, right: bytes) -> bool:
    """Whether stream id ``left`` is before ``right``."""
    return parse(left) < parse(right)
