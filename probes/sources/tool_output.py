"""What the parsers of vmstat and pidstat share: numbers, the banner, rejected lines.

Part of the probe's import closure, so no ``re`` and nothing heavy.
"""

from __future__ import annotations

from typing import NamedTuple

from acquisition.model import codes
from acquisition.model.codes import NAN
from acquisition.model.metric import INFINITY

#: A longer line is garbage: pidstat -l prints at most a page or so of arguments.
MAX_LINE = 65536

#: What ``pidstat --human`` appends, in bytes (sysstat common.c: powers of 1024).
_UNITS = {b"B": 1.0, b"k": 2.0**10, b"M": 2.0**20, b"G": 2.0**30, b"T": 2.0**40, b"P": 2.0**50}

_MAX_REASONS = 100
_MAX_RANGES = 100


class Rejections:
    """Lines that could not be placed, by reason, with line numbers; bounded in memory.

    ``count`` is exact. ``lines[reason]`` holds ranges [first, last]; beyond the bounds
    further lines are only counted.
    """

    __slots__ = ("count", "counts", "lines")

    def __init__(self) -> None:
        self.count = 0
        self.counts: dict[str, int] = {}
        self.lines: dict[str, list[list[int]]] = {}

    def add(self, line: int, reason: str) -> None:
        """Count line number ``line`` as rejected for ``reason``."""
        self.count += 1
        if reason not in self.counts and len(self.counts) >= _MAX_REASONS:
            reason = "other reasons"
        self.counts[reason] = self.counts.get(reason, 0) + 1
        ranges = self.lines.setdefault(reason, [])
        if ranges and line == ranges[-1][1] + 1:
            ranges[-1][1] = line
        elif len(ranges) < _MAX_RANGES:
            ranges.append([line, line])


class Banner(NamedTuple):
    """The first line of pidstat: ``Linux 6.1.0 (host) 	01/02/26 	_x86_64_	(8 CPU)``."""

    host: str
    date: str  #: as printed, in the locale of the tool
    cores: int


def banner(line: bytes) -> Banner | None:
    """The banner in ``line``, or None when it is none."""
    if not line.startswith(b"Linux ") or not line.endswith(b" CPU)"):
        return None
    parts = line.decode("utf-8", "replace").split("\t")
    start, end = parts[0].find(" ("), parts[0].rfind(")")
    count = parts[-1].strip()[1:-5]
    if len(parts) < 3 or start < 0 or end < start or not (count.isascii() and count.isdigit()):
        return None
    return Banner(parts[0][start + 2 : end], parts[1].strip(), int(count[:9]))


def number(token: bytes) -> tuple[float, int]:
    """The value of ``token`` and its code: the careful, slow way.

    Understands decimal commas and ``-`` (MISSING). NaN and infinite values are RANGE,
    anything else is UNREADABLE.
    """
    if token == b"-":
        return NAN, codes.MISSING
    text = token.replace(b",", b".")
    try:
        value = float(text)
    except ValueError:
        return NAN, codes.UNREADABLE
    if b"_" in text or text != text.strip():  # float() takes what no tool prints
        return NAN, codes.UNREADABLE
    return value, codes.VALID if -INFINITY < value < INFINITY else codes.RANGE


def human_number(token: bytes, divisor: float) -> tuple[float, int]:
    """Like ``number``, divided by ``divisor``; with the suffixes of ``--human``: % (divided
    as well) or a unit of bytes (not divided)."""
    if token[-1:] in _UNITS:
        divisor = 1.0 / _UNITS[token[-1:]]
        token = token[:-1]
    value, code = number(token.removesuffix(b"%"))
    value /= divisor
    if code == codes.VALID and not -INFINITY < value < INFINITY:
        code = codes.RANGE
    return value, code


def without_colours(line: bytes) -> bytes:
    """The line without the escape sequences of ``S_COLORS=always``."""
    first, *rest = line.split(b"\x1b[")
    kept = [first]
    for piece in rest:
        end = piece.find(b"m")
        kept.append(piece[end + 1 :] if 0 <= end <= 12 else piece)
    return b"".join(kept)
