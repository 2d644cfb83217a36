"""Stream entry ids: ``MS-SEQ``, shard clock in milliseconds and a counter."""

from __future__ import annotations


def parse(text: bytes) -> tuple[int, int]:
    """The two numbers of a stream id; anything else precedes all ids."""
    try:
        milliseconds, _, number = text.partition(b"-")
        return int(milliseconds), int(number)
    except ValueError:
        return -1, -1


def is_possible(entry: bytes) -> bool:
    """Whether a stream can have such an id: both numbers fit 64 bits."""
    return all(0 <= number < 1 << 64 for number in parse(entry))


def is_before(left: bytes, right: bytes) -> bool:
    """Whether stream id ``left`` is before ``right``."""
    return parse(left) < parse(right)
