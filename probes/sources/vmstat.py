"""vmstat: a parser for what it prints, fed line by line. Pure: no process, no clock.

Source: vmstat(8) and src/vmstat.c of procps 3.3 and 4.0. Columns are found by their
header names. Facts that the table below rests on:

- swpd, free, buff, cache are in the unit of -S (k 1000, K 1024, m 10^6, M 2^20 bytes), si and
  so in that unit per second; the header does not name the unit, so the caller must know it;
- bi and bo come from pgpgin and pgpgout, so they are blocks of 1024 bytes per second
  whatever the unit;
- procps 4 prints ``gu`` (with -w from 4.0.1, always from 4.0.3) and takes guest time out of
  ``us``; procps 3 counts guest time in ``us`` and cannot separate it: guest is then MISSING;
- the first line is an average since boot (-y leaves it out), so it is no sample;
- -a replaces buff and cache by inact and active: they are then MISSING;
- some languages have names of their own for columns; a name that occurs twice means neither.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from acquisition.model import codes
from acquisition.model.codes import NAN
from acquisition.model.metric import INFINITY, ResourceSet
from probes.metrics import HOST
from probes.sources.tool_output import MAX_LINE, Rejections, number, without_colours
from probes.sources.vmstat_words import TRANSLATED

#: The argument of ``vmstat -S`` -> bytes.
UNITS: dict[str, int] = {"b": 1, "B": 1, "k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}
_BLOCK = 1024

_SIZE, _BLOCKS, _PERCENT, _PLAIN = "size", "blocks", "percent", "plain"

#: header name -> metric, how it is scaled
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
_COLUMNS.update((word, _COLUMNS[name]) for word, name in TRANSLATED.items())
#: What -t appends to a row.
_DATE = re.compile(rb"\d{4}-\d\d-\d\d")
_CLOCK = re.compile(rb"\d\d:\d\d:\d\d")
#: A header has at least this many names that we know, and half of all: no row of text passes for one.
_MIN_KNOWN = 3
_MAX_UNKNOWN = 100


class VmstatRow(NamedTuple):
    """One line: values and codes in the order of the resource set; ``time`` as printed by -t, else ""."""

    line: int
    time: str
    values: list[float]
    codes: bytearray


class VmstatParser:
    """Takes lines, gives rows; keeps the header and the counts.

    ``unit`` is the argument of -S; ``first_is_average`` is False for a tool started with -y.
    ``parsed`` rows, ``skipped`` lines that are no samples, ``rejected`` lines with reasons,
    ``unknown`` header names that were not understood.
    """

    def __init__(self, resource_set: ResourceSet = HOST, *, unit: str = "K", first_is_average: bool = True) -> None:
        self.lines = 0
        self.parsed = 0
        self.skipped = 0
        self.rejected = Rejections()
        self.unknown: set[str] = set()
        # factor and divisor: a division by 100 is exact to the last bit where a product with 0.01 is not
        self._scales = {
            _SIZE: (float(UNITS[unit]), 1.0),
            _BLOCKS: (float(_BLOCK), 1.0),
            _PERCENT: (1.0, 100.0),
            _PLAIN: (1.0, 1.0),
        }
        self._index = {metric.name: i for i, metric in enumerate(resource_set.metrics)}
        self._average_next = first_is_average
        self._columns: list[tuple[int, int, float, float]] | None = None  # token, metric, factor, divisor
        self._width = 0  # names in the header
        self._zone = b""  # the last of them where we do not know it: with -t the time zone
        self._timed = False  # whether it is a zone for sure: then every row has a time

    def feed(self, line: bytes) -> VmstatRow | None:
        """The row in ``line`` (with or without its newline), or None when it is no sample."""
        self.lines += 1
        if len(line) > MAX_LINE:
            self.rejected.add(self.lines, f"longer than {MAX_LINE} bytes")
            return None
        if b"\x1b" in line:
            line = without_colours(line)
        tokens = line.split()
        if not tokens or tokens[0].startswith(b"#") or b"---" in line:
            self.skipped += 1
            return None
        known = sum(token in _COLUMNS for token in tokens)
        if known >= _MIN_KNOWN and known * 2 >= len(tokens):
            self._read_header(tokens)
            return None
        return self._read_row(tokens)

    def _read_header(self, tokens: list[bytes]) -> None:
        self.skipped += 1
        columns: list[tuple[int, int, float, float]] = []
        for at, token in enumerate(tokens):
            metric, scale = _COLUMNS.get(token, ("", _PLAIN)) if tokens.count(token) == 1 else ("", _PLAIN)
            if metric in self._index:
                columns.append((at, self._index[metric], *self._scales[scale]))
            elif not metric and at < len(tokens) - 1:
                self._report(token)
        self._columns = columns
        self._width = len(tokens)
        self._zone = tokens[-1] if tokens[-1] not in _COLUMNS else b""
        self._timed = not self._zone.islower()  # zones are written UTC or +03, columns in small letters

    def _read_row(self, tokens: list[bytes]) -> VmstatRow | None:
        if self._columns is None:
            self.rejected.add(self.lines, "a row before any header")
            return None
        time = ""
        count = len(tokens)
        if count > 2 and _CLOCK.fullmatch(tokens[-1]) and _DATE.fullmatch(tokens[-2]):
            time = (tokens[-2] + b" " + tokens[-1]).decode("ascii", "replace")
            count -= 2
            self._timed = True
        elif self._timed and self._zone:
            self.rejected.add(self.lines, "no time, or a part of one")  # a cut date would pass for a column
            return None
        width = self._width - 1 if time and self._zone else self._width
        if self._zone and not time:
            self._report(self._zone)
        if count != width:
            self.rejected.add(self.lines, f"{count} values for {width} columns")
            return None
        row = self._values(tokens)
        if row is None:
            self.rejected.add(self.lines, "no value can be read")
            return None
        if self._average_next:  # since boot: no sample
            self._average_next = False
            self.skipped += 1
            return None
        self.parsed += 1
        return VmstatRow(self.lines, time, *row)

    def _report(self, name: bytes) -> None:
        if len(self.unknown) < _MAX_UNKNOWN:
            self.unknown.add(name.decode("utf-8", "replace")[:40])

    def _values(self, tokens: list[bytes]) -> tuple[list[float], bytearray] | None:
        """Values and codes of a row; None when not one of them can be read."""
        size = len(self._index)
        values = [NAN] * size
        row_codes = bytearray([codes.MISSING]) * size
        readable = False
        assert self._columns is not None
        for at, target, factor, divisor in self._columns:
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
