"""Tool output parsing common to vmstat and pidstat: lines, numbers, banner.

Part of the probe's import closure, so no ``re`` and nothing heavy.
"""

from __future__ import annotations

from typing import NamedTuple

from acquisition.model import codes
from acquisition.model.codes import NAN
from acquisition.model.metric import INFINITY

#: A longer line is garbage: pidstat -l prints at most a page or so of arguments.
MAX_LINE = 65536

#: Suffixes of ``pidstat --human``, in bytes (sysstat common.c: powers of 1024).
_UNITS = {b"B": 1.0, b"k": 2.0**10, b"M": 2.0**20, b"G": 2.0**30, b"T": 2.0**40, b"P": 2.0**50}

_DIGITS = frozenset(b"0123456789")
_SHAPES = bytes.maketrans(b"123456789", b"0" * 9)
_LONGEST_NUMBER, _EPOCH = 3, 9  #: digits of an hour (numerals in Chinese), of seconds since 1970
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


#: Kinds of lines that were understood but are not samples.
HEADER, SINCE_BOOT, AVERAGE, THREAD = "headers", "since boot", "averages", "threads"
OTHER, COMMENT = "of other reports", "comments"


class LineParser:
    """Base of the parsers: every line is counted once, as a row, as one of the kinds above, or as rejected.

    ``lines`` == ``parsed`` (rows with samples) + ``skipped`` (the sum of ``passed``: kind -> lines) +
    ``rejected.count``, at any time. ``unknown``: header names without a meaning here.
    """

    def __init__(self) -> None:
        self.lines = 0
        self.parsed = 0
        self.passed: dict[str, int] = {}
        self.rejected = Rejections()
        self.unknown: set[str] = set()

    @property
    def skipped(self) -> int:
        """Lines that were understood and contain no sample."""
        return sum(self.passed.values())

    def _usable(self, line: bytes) -> bytes | None:
        """Count a line; the line without colours, or None if it is rejected regardless of earlier ones."""
        self.lines += 1
        if len(line) > MAX_LINE:
            self._reject(f"longer than {MAX_LINE} bytes")
            return None
        if b"\0" in line:
            self._reject("contains NUL")
            return None
        return without_colours(line) if b"\x1b" in line else line

    def _pass(self, kind: str) -> None:
        self.passed[kind] = self.passed.get(kind, 0) + 1

    def _reject(self, reason: str) -> None:
        self.rejected.add(self.lines, reason)


class Banner(NamedTuple):
    """The first line of pidstat: ``Linux 6.1.0 (host) 	01/02/26 	_x86_64_	(8 CPU)``."""

    host: str
    date: str  #: as printed, in the locale of the tool
    cores: int


def banner(line: bytes) -> Banner | None:
    """The banner in ``line``, or None for another line."""
    if not line.startswith(b"Linux ") or not line.endswith(b" CPU)"):
        return None
    parts = line.decode("utf-8", "replace").split("\t")
    start, end = parts[0].find(" ("), parts[0].rfind(")")
    count = parts[-1].strip()[1:-5]
    if len(parts) < 3 or start < 0 or end < start or not (count.isascii() and count.isdigit()):
        return None
    return Banner(parts[0][start + 2 : end], parts[1].strip(), int(count[:9]))


def number(token: bytes) -> tuple[float, int]:
    """Value of ``token`` and its code: the careful, slow way.

    Understands digits of any script, decimal commas and ``-`` (MISSING). NaN and infinite values are
    RANGE, anything else is UNREADABLE.
    """
    if token == b"-":
        return NAN, codes.MISSING
    text = ascii_digits(token).replace(b",", b".")
    try:
        value = float(text)
    except ValueError:
        return NAN, codes.UNREADABLE
    if b"_" in text or text != text.strip():  # float() accepts text that no tool prints
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


def ascii_digits(text: bytes) -> bytes:
    """UTF-8 text with ASCII digits in place of those of other scripts, and ``.`` for the Arabic decimal sign."""
    if text.isascii():
        return text
    found = text.decode("utf-8", "replace").replace("\u066b", ".")
    return "".join(str(int(each)) if each.isdecimal() else each for each in found).encode()


def has_digit(text: bytes) -> bool:
    """Whether ``text`` contains a digit or a numeral of any script: a time has one, ``Average:`` has none."""
    if text.isascii():
        return not _DIGITS.isdisjoint(text)
    return any(each.isnumeric() for each in text.decode("utf-8", "replace"))


def has_seconds(time: bytes) -> bool:
    """Whether a time is exact to the second: three numbers (an offset from UTC is not one), or seconds since 1970."""
    text = time.decode("utf-8", "replace")
    numbers = "".join(each if each.isnumeric() or each in "+-" else " " for each in text).split()
    sizes = [len(each) for each in numbers if each[0] not in "+-"]
    return sum(size <= _LONGEST_NUMBER for size in sizes) >= 3 or max(sizes, default=0) >= _EPOCH


def shape(text: bytes) -> bytes:
    """The text with 0 for every ASCII digit: ``0000-00-00`` is a date."""
    return text.translate(_SHAPES)


def without_colours(line: bytes) -> bytes:
    """Line without the escape sequences of ``S_COLORS=always``."""
    first, *rest = line.split(b"\x1b[")
    kept = [first]
    for piece in rest:
        end = piece.find(b"m")
        kept.append(piece[end + 1 :] if 0 <= end <= 12 else piece)
    return b"".join(kept)
