"""Pidstat row: the position of its values, and their conversion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import truediv
from typing import NamedTuple

from acquisition.model import codes
from acquisition.model.codes import NAN
from probes.tools.pidstat_header import MOST_TIME_WORDS, Header
from probes.tools.tool_output import ascii_digits, human_number

_MOST_USER_WORDS = 8
_TIME_WIDTH = 11
_DIGITS = frozenset(b"0123456789")


class Placed(NamedTuple):
    """A row: ``values`` under the names of its header, ``time`` as printed, and the number of words before
    the values without spaces (the time, and the user if the header has a column for it)."""

    values: list[bytes]
    time: bytes
    lead: int


def fits(parts: Sequence[bytes], offset: int, header: Header) -> bool:
    """Whether the identity columns of a row start at ``offset``: ids are numbers (or - with -t). User ids of 2^31
    and above are printed as negative ones."""
    pid = parts[offset + header.pid]
    if header.uid >= 0 and not parts[offset + header.uid].removeprefix(b"-").isdigit():
        return False
    if header.tid < 0:
        return pid.isdigit() and len(pid) < 12
    tid = parts[offset + header.tid]
    return (pid.isdigit() or pid == b"-") and (tid.isdigit() or tid == b"-") and len(pid) < 12


def place(line: bytes, header: Header, words: int) -> Placed | None:
    """The row in ``line``, or None for another line, or if there is more than one way to read it.

    ``words``: number of words of the time, if known; 0: unknown. The choice depends on which columns have whole numbers
    and which decimals, and then on where printf puts them.
    """
    line = line.rstrip(b"\r\n")
    lead = words + header.named
    found = list(_ways(line, header, words))
    ways = [way for way in found if typed(way.values, header)]
    if len(ways) > 1:
        ways = [way for way in ways if way.lead == lead and not header.named] or [
            way for way in ways if as_printed(line, way, header)
        ]
    elif not ways:  # unreadable values
        ways = [way for way in found if way.lead == lead] or found[:1]
    return ways[0] if len(ways) == 1 else None


def _ways(line: bytes, header: Header, words: int) -> Iterator[Placed]:
    width = header.width - header.named
    least = words + 1 if header.named and not header.line_layout else 1 + header.named
    most = MOST_TIME_WORDS + (_MOST_USER_WORDS if header.named else 0)
    for lead in range(least, most + 1):
        parts = line.split(None, lead + width - 1)
        if len(parts) == lead + width - 1 and line.endswith(b"  "):
            parts.append(b"")  # a process without a name
        if len(parts) < lead + width:
            return
        values = [*map(ascii_digits, parts[lead:-1]), parts[-1]]
        if header.named:
            values.insert(0, b"")
        if fits(values, 0, header):
            of_time = _time_words(line, lead, words, header) if header.named else lead
            yield Placed(values, b" ".join(parts[:of_time]), lead)


def _time_words(line: bytes, lead: int, words: int, header: Header) -> int:
    """Number of words of the time before the values, if a user follows: with -h those before the spaces
    that pad the time to 11 bytes or the user to 8; else as many as before, else all but one."""
    if not header.line_layout:
        return words
    before = line[: len(line) - len(line.split(None, lead)[lead])].rstrip()
    gap = before.find(b"  ", 1)
    while gap >= 0:
        end = len(before) - len(before[gap:].lstrip())
        if end > _TIME_WIDTH:
            return len(before[:gap].split())
        gap = before.find(b"  ", end)
    return words if 0 < words < lead else lead - 1


def typed(values: Sequence[bytes], header: Header) -> bool:
    """Whether values are whole numbers or have decimals, like their columns (--human: decimals before a unit)."""
    for at, decimals in header.figures:
        token = values[at]
        plain = token.removeprefix(b"-").isdigit()
        if decimals and (plain or human_number(token, 1.0)[1] != codes.VALID):
            return False
        bare = token[-1:].isdigit() or human_number(token, 1.0)[1] != codes.VALID
        if not decimals and not plain and token != b"-" and bare:
            return False
    return True


def as_printed(line: bytes, row: Placed, header: Header, shift: int = 0) -> bool:
    """Whether every value of a row is where printf puts it, within ``shift`` characters: under the end of its
    name, or, if it is too long, a space after the previous one; and the command after two spaces."""
    rest = line.split(None, row.lead)
    end = len(line[: len(line) - len(rest[row.lead])].rstrip()) if len(rest) > row.lead else 0
    for at in range(header.named, header.width - 1):
        token = row.values[at]
        start = line.find(token, end)
        off = start + len(token) - end - max(header.cells[at], len(token) + 1)
        if start < 0 or (at and abs(off) > shift):
            return False
        end = start + len(token)
    return line[end : end + 2] == b"  " and not line[end + 2 : end + 3].isspace()


def looks_aligned(parts: Sequence[bytes], header: Header) -> bool:
    """Whether a row has as many values as its header has columns, as far as this can be seen with a command that
    may have spaces: the last value is a number, and the command is not a number before two spaces."""
    last = parts[-2]
    if header.ends_in_number and not (last[-1:].isdigit() or _is_number(last)):
        return False
    command = parts[-1]
    if command and command[0] in _DIGITS:
        first = command.split(None, 1)[0]
        gap = command[len(first) : len(first) + 2]
        return not (len(gap) == 2 and gap.isspace() and _is_number(first))
    return True


def _is_number(token: bytes) -> bool:
    return human_number(token, 1.0)[1] != codes.UNREADABLE


def samples(parts: list[bytes], header: Header) -> tuple[list[float], bytearray] | None:
    """Values and codes of a row (``parts`` without the time); None if all of them are unreadable."""
    tokens = header.pick(parts)
    try:
        values = list(map(truediv, map(float, tokens), header.divisors))
    except ValueError:
        return _careful_samples(tokens, header)
    total = sum(values)
    if total - total != 0.0 or min(values) < 0.0 or b"_" in b"".join(tokens):
        return _careful_samples(tokens, header)
    if header.in_order:
        values.extend([NAN] * (len(header.codes) - len(values)))
        return values, bytearray(header.codes)
    scattered = [NAN] * len(header.codes)
    for target, value in zip(header.targets, values, strict=True):
        scattered[target] = value
    return scattered, bytearray(header.codes)


def _careful_samples(tokens: tuple[bytes, ...], header: Header) -> tuple[list[float], bytearray] | None:
    values = [NAN] * len(header.codes)
    row_codes = bytearray(header.codes)
    readable = False
    for token, target, divisor in zip(tokens, header.targets, header.divisors, strict=True):
        value, code = human_number(token, divisor)
        if target in header.io and value == -1024.0:
            value, code = NAN, codes.MISSING
        values[target] = value
        row_codes[target] = code
        readable = readable or code != codes.UNREADABLE
    return (values, row_codes) if readable else None
