"""Vmstat parser, fed line by line; pure: no process, no clock.

Source: vmstat(8) and src/vmstat.c of procps 2.0 to 4.0. Facts the code relies on:

- columns are found by their names. If a name occurs twice neither column is used, and an
  unknown one is MISSING;
- a header without any known name is in a language with its own names. Only procps 3.3 and newer have
  these, and they print 17 columns, from 4.0.1 on 18 with ``gu``. So position decides, except if options
  change the column: buff and cache (with -a inact and active) and gu are MISSING;
- swpd, free, buff, cache are in the unit of -S (k 1000, K 1024, m 10^6, M 2^20 bytes), si and
  so in that unit per second; the header does not name the unit, so the caller must know it;
- bi and bo come from pgpgin and pgpgout, so they are blocks of 1024 bytes per second
  independent of the unit;
- procps 4 prints ``gu`` (with -w from 4.0.1, always from 4.0.3) and takes guest time out of
  ``us``; procps 3 counts guest time in ``us`` and cannot separate it: guest is then MISSING;
- -a replaces buff and cache by inact and active: they are then MISSING;
- with -t a row ends in date and time. The zone follows the names of the header, or (the patched
  3.2.8 of RHEL 6) after the time of every row;
- the first row of a run is an average since boot (-y leaves it out), so it is not a sample. A header after
  rows starts a run, unless it is a repeated one: every 21 rows without a terminal (height - 3 on
  one), with the interval of the previous rows and nothing in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from acquisition.model import codes
from acquisition.model.codes import NAN
from acquisition.model.metric import INFINITY, ResourceSet
from probes.metrics import HOST
from probes.tools.tool_output import (
    COMMENT,
    HEADER,
    SINCE_BOOT,
    LineParser,
    ascii_digits,
    has_digit,
    number,
    shape,
)

#: The argument of ``vmstat -S`` -> bytes.
UNITS: dict[str, int] = {"b": 1, "B": 1, "k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}
_BLOCK = 1024

_SIZE, _BLOCKS, _PERCENT, _PLAIN = "size", "blocks", "percent", "plain"

#: header name -> metric, its scaling; in the order printed by procps 3.3
_COLUMNS: dict[bytes, tuple[str, str]] = {
    b"r": ("tasks_runnable", _PLAIN),
    b"b": ("tasks_blocked", _PLAIN),
    b"swpd": ("swap_used_bytes", _SIZE),
    b"free": ("memory_free_bytes", _SIZE),
    b"buff": ("memory_buffers_bytes", _SIZE),
    b"cache": ("memory_cache_bytes", _SIZE),
    b"si": ("swap_in_bytes_per_second", _SIZE),
    b"so": ("swap_out_bytes_per_second", _SIZE),
    b"bi": ("block_in_bytes_per_second", _BLOCKS),
    b"bo": ("block_out_bytes_per_second", _BLOCKS),
    b"in": ("interrupts_per_second", _PLAIN),
    b"cs": ("context_switches_per_second", _PLAIN),
    b"us": ("cpu_user_ratio", _PERCENT),
    b"sy": ("cpu_system_ratio", _PERCENT),
    b"id": ("cpu_idle_ratio", _PERCENT),
    b"wa": ("cpu_iowait_ratio", _PERCENT),
    b"st": ("cpu_steal_ratio", _PERCENT),
    b"gu": ("cpu_guest_ratio", _PERCENT),
}
#: Known, but not metrics here: waiting processes (procps 2), memory by use (-a).
_OTHERS = frozenset((b"w", b"inact", b"active"))
#: Names for a header without known ones, by position: empty if options decide.
_BY_POSITION = [b"" if name in (b"buff", b"cache", b"gu") else name for name in _COLUMNS]
#: Its number of columns: with or without gu, with or without the zone of -t.
_POSITIONAL = (17, 18, 19)
#: A header has at least this many known names, and half of all: no row of text passes for one.
_MIN_KNOWN = 3
#: The line above it: at least this many groups are drawn with dashes.
_MIN_GROUPS = 3
#: In procps 2 it has no dashes.
_GROUPS = frozenset((b"procs", b"memory", b"swap", b"io", b"system", b"cpu"))
_DATE, _CLOCK = b"0000-00-00", b"00:00:00"
#: Maximum number of words in a line of ``date``.
_STAMP_WORDS = 7
_MAX_UNKNOWN = 100
#: Rows between two headers if the output is not a terminal: 24 lines less 3.
_PAGE = 21
_DAY = 86400
#: Figures of two averages since boot differ by at most this part (or a per cent of the CPU).
_ALIKE, _PERCENT_ALIKE = 0.05, 0.0101


class VmstatRow(NamedTuple):
    """One line: values and codes in the order of the resource set; ``time`` as printed by -t, else "".

    ``stamp``: the line of ``date`` or of OSWatcher (``zzz``) above its run, with the first sample after it.
    """

    line: int
    time: str
    values: list[float]
    codes: bytearray
    stamp: str = ""


class _Header(NamedTuple):
    names: list[bytes]
    columns: list[tuple[int, int, float, float]]  # token, metric, factor, divisor
    zone: bytes  # the last name if it is unknown: with -t the time zone


class VmstatParser(LineParser):
    """Takes lines, returns rows; keeps the header and the counts.

    ``unit`` is the argument of -S; ``first_is_average`` is False for a tool started with -y.
    """

    def __init__(self, resource_set: ResourceSet = HOST, *, unit: str = "K", first_is_average: bool = True) -> None:
        super().__init__()
        # factor and divisor: a division by 100 is exact to the last bit while a product with 0.01 is not
        self._scales = {
            _SIZE: (float(UNITS[unit]), 1.0),
            _BLOCKS: (float(_BLOCK), 1.0),
            _PERCENT: (1.0, 100.0),
            _PLAIN: (1.0, 1.0),
        }
        self._index = {metric.name: i for i, metric in enumerate(resource_set.metrics)}
        rates = [name for name in self._index if name.startswith("cpu_") or name.endswith("_per_second")]
        self._runs = _Runs([self._index[name] for name in rates]) if first_is_average else None
        self._header: _Header | None = None
        self._timed = False  # whether every row certainly has a time
        self._stamp = ""

    def unreadable(self) -> tuple[list[float], bytearray]:
        """Values and codes of a rejected row."""
        size = len(self._index)
        return [NAN] * size, bytearray([codes.UNREADABLE]) * size

    def feed(self, line: bytes) -> VmstatRow | None:
        """The row in ``line`` (with or without its newline), or None if it is not a sample."""
        rejected = self.rejected.count
        row = self._take(line)
        if self._runs is not None and self.rejected.count != rejected:
            self._runs.interrupt()
        return row

    def _take(self, line: bytes) -> VmstatRow | None:
        usable = self._usable(line)
        if usable is None:
            return None
        tokens = ascii_digits(usable).split()
        if self._is_comment(tokens):
            self._pass(COMMENT)
            if self._runs is not None:
                self._runs.interrupt()
        elif _is_group_line(tokens):
            self._pass(HEADER)
            self._header = None
        elif _is_header(tokens, self._header is None):
            self._pass(HEADER)
            self._begin(tokens)
        elif self._header is None:
            self._reject("a row before any header")
        else:
            return self._read_row(tokens, self._header)
        return None

    def _is_comment(self, tokens: list[bytes]) -> bool:
        if not tokens or tokens[0].startswith(b"#"):
            return True
        dated = len(tokens) <= _STAMP_WORDS and not self._timed and any(_CLOCK in shape(token) for token in tokens)
        if dated or tokens[0] == b"zzz":
            self._stamp = b" ".join(tokens).decode("utf-8", "replace")
            return True
        return False

    def _begin(self, names: list[bytes]) -> None:
        by_name = any(name in _COLUMNS for name in names)
        known = [name if names.count(name) == 1 else b"" for name in names] if by_name else [*_BY_POSITION, b""]
        last = names[-1]
        zoned = last not in _COLUMNS and last.isascii() and (by_name or len(names) > _POSITIONAL[0])
        zone = last if zoned else b""
        columns: list[tuple[int, int, float, float]] = []
        for at, name in enumerate(known[: len(names)]):
            metric, scale = _COLUMNS.get(name, ("", _PLAIN))
            if metric in self._index:
                columns.append((at, self._index[metric], *self._scales[scale]))
            elif not metric and name not in _OTHERS and (at < len(names) - 1 or not zone):
                self._report(names[at])
        self._timed = bool(zone) and not zone.islower()  # zones are written UTC or +03, columns in small letters
        self._header = _Header(names, columns, zone)
        if self._runs is not None:
            self._runs.header(names)

    def _read_row(self, tokens: list[bytes], header: _Header) -> VmstatRow | None:
        words = _time_words(tokens)
        self._timed = self._timed or words > 0
        if self._timed and not words:
            self._reject("missing or incomplete time")  # a truncated date would pass for a column
            return None
        count, width = len(tokens) - words, len(header.names)
        if words and header.zone and count == width - 1:
            width -= 1
        elif header.zone:
            self._report(header.zone)
        if count != width:
            self._reject(f"{count} values for {width} columns")
            return None
        row = self._values(tokens, header)
        if row is None:
            self._reject("no readable value")
            return None
        time = b" ".join(tokens[count:][:2])
        if self._runs is not None and self._runs.starts(row[0], time):
            self._pass(SINCE_BOOT)
            return None
        self.parsed += 1
        stamp, self._stamp = self._stamp, ""
        return VmstatRow(self.lines, time.decode("ascii"), *row, stamp)

    def _report(self, name: bytes) -> None:
        if len(self.unknown) < _MAX_UNKNOWN:
            self.unknown.add(name.decode("utf-8", "replace")[:40])

    def _values(self, tokens: list[bytes], header: _Header) -> tuple[list[float], bytearray] | None:
        """Values and codes of a row; None if all of them are unreadable."""
        size = len(self._index)
        values = [NAN] * size
        row_codes = bytearray([codes.MISSING]) * size
        readable = False
        for at, target, factor, divisor in header.columns:
            token = tokens[at]
            if token.isdigit() and len(token) < 20:
                value, code = float(token), codes.VALID
            else:
                value, code = number(token)
            value = value * factor / divisor
            if code == codes.VALID and not -INFINITY < value < INFINITY:  # 1e308 in MB
                code = codes.RANGE
            values[target] = value
            row_codes[target] = code
            readable = readable or code != codes.UNREADABLE
        return (values, row_codes) if readable else None


class _Runs:
    """Finds the first row of every run. ``rates``: metrics for which that row has averages since boot."""

    def __init__(self, rates: Sequence[int]) -> None:
        self._interrupted = False
        self._rates = rates
        self._names: list[bytes] = []
        self._fresh = False  # there was a header since the last row
        self._rows = 0  # of this run
        self._first: list[float] = []
        self._time = b""
        self._step = 0  # seconds between the last two rows, 0: unknown

    def interrupt(self) -> None:
        """Note something other than rows and headers."""
        self._interrupted = True

    def header(self, names: list[bytes]) -> None:
        """Note a header."""
        self._interrupted = self._interrupted or names != self._names
        self._names, self._fresh = names, True

    def starts(self, values: list[float], time: bytes) -> bool:
        """Whether the next row, with these values and this time, is the first of a run."""
        first = self._rows == 0 or (self._fresh and not self._repeated(values, time))
        if first:
            self._rows, self._first, self._step = 0, values, 0
        elif self._time and time:
            self._step = _seconds_between(self._time, time)
        self._rows += 1
        self._time = time
        self._fresh = self._interrupted = False
        return first

    def _repeated(self, values: list[float], time: bytes) -> bool:
        """Whether the header above was repeated within the run."""
        if self._interrupted:
            return False
        if self._time and time:
            gap = _seconds_between(self._time, time)
            if gap == 0 or abs(gap - self._step) > 1:
                return False
            if self._step > 2:  # consecutive runs have no such gap
                return True
        return self._rows % _PAGE == 0 and not all(_alike(values[at], self._first[at]) for at in self._rates)


def _alike(a: float, b: float) -> bool:
    return not abs(a - b) > _ALIKE * max(abs(a), abs(b)) + _PERCENT_ALIKE


def _seconds_between(earlier: bytes, later: bytes) -> int:
    """Seconds from one ``date time`` to another, if less than a day; else a day."""
    (date_a, a), (date_b, b) = ((text[:10], _of_day(text[11:])) for text in (earlier, later))
    if date_a == date_b:
        return b - a
    return b + _DAY - a if b < a else _DAY


def _of_day(clock: bytes) -> int:
    hour, minute, second = clock.split(b":")
    return int(hour) * 3600 + int(minute) * 60 + int(second)


def _time_words(tokens: Sequence[bytes]) -> int:
    """Number of words at the end of a row that are its time: date and time, with or without the zone; 0: none."""
    for words in (2, 3):
        if len(tokens) > words and (shape(tokens[-words]), shape(tokens[1 - words])) == (_DATE, _CLOCK):
            return words
    return 0


def _is_group_line(tokens: Sequence[bytes]) -> bool:
    drawn = sum(b"--" in token for token in tokens) >= _MIN_GROUPS and not any(map(has_digit, tokens))
    return drawn or (len(tokens) >= _MIN_GROUPS and _GROUPS.issuperset(tokens))


def _is_header(tokens: Sequence[bytes], expected: bool) -> bool:
    """Whether these are column names; ``expected``: no header is in force."""
    if any(map(has_digit, tokens[:-1])):
        return False
    known = sum(token in _COLUMNS for token in tokens)
    if known >= _MIN_KNOWN and known * 2 >= len(tokens):
        return True
    return expected and len(tokens) in _POSITIONAL
