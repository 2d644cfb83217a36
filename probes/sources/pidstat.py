"""pidstat: a parser for what it prints, fed line by line. Pure: no process, no clock.

Source: pidstat(1) and pidstat.c of sysstat 10.0 to 12.7. Columns are found by their header
names. The two layouts:

- ``-h``: a header that starts with ``#``, then one line per process with all columns;
- else a block per report (-u, -r, -d, -w): a blank line, a header that starts with the time
  of the previous sample, then a line per process. The blocks of one tick are merged.

Facts that the code rests on:

- what comes before UID, USER, PID or TGID is the time: one token (``13:00:01``,
  ``1792000000``, ``13時00分01秒``) or several (``01:00:01 PM``, ``UTC 13:00:01``). In a row it
  ends where the tokens after it fit the identity columns;
- averages (``Average:`` in any language) have no digit in the time field; they are no samples;
- ``Command`` is last and may contain spaces;
- with -t a row with a number below TID is a thread: no entity of ours, it is skipped, its
  process has a row of its own;
- %usr excludes guest time (utime - gtime), %CPU includes it; per cent of one core. With -I
  %CPU alone is divided by the number of CPUs: the caller must know it;
- -1.00 in a disk column means that /proc/PID/io may not be read: MISSING;
- iodelay counts clock ticks in the interval, all other rates are per second; kB are 1024 bytes;
- rows of 10.x and 11.x with -h carry the time at which the row was printed, so a tick may
  span the turn of a second there;
- without an interval the rates are averages since boot, and the header of the (only) block
  has the time of its rows: no samples. The -h layout does not show this.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import truediv
from typing import NamedTuple

from acquisition.model import codes
from acquisition.model.codes import NAN
from acquisition.model.metric import ResourceSet
from probes.metrics import PROCESSES
from probes.sources.pidstat_header import (
    Header,
    aligned,
    fits,
    has_digit,
    identity_at,
    names_process,
    split_row,
    unknown_names,
    without_pid,
)
from probes.sources.tool_output import MAX_LINE, Banner, Rejections, banner, human_number, without_colours

_MAX_PID = 1 << 22  # PID_MAX_LIMIT
_MAX_HEADERS = 64  # remembered: garbage must not fill the memory


class ProcessRow:
    """One process at one tick: values and codes in the order of the resource set.

    ``line`` is the number of the first line that names the process in this tick.
    """

    __slots__ = ("codes", "command", "line", "pid", "values")

    def __init__(self, line: int, pid: int, command: str, values: list[float], row_codes: bytearray) -> None:
        self.line = line
        self.pid = pid
        self.command = command
        self.values = values
        self.codes = row_codes


class ProcessTick(NamedTuple):
    """All rows of one tick, by pid; ``time`` as printed."""

    time: str
    rows: dict[int, ProcessRow]


class PidstatParser:
    """Takes lines, gives ticks; a tick is complete when the next one starts, or on ``flush``.

    ``cores_divided`` is the number of CPUs by which ``pidstat -I`` divided %CPU (0: not used).
    ``parsed`` rows, ``skipped`` lines that are no samples, ``rejected`` lines with reasons,
    ``unknown`` header names that were not understood, ``banner`` of the newest start.
    """

    def __init__(self, resource_set: ResourceSet = PROCESSES, *, cores_divided: int = 0) -> None:
        self.lines = 0
        self.parsed = 0
        self.skipped = 0
        self.rejected = Rejections()
        self.unknown: set[str] = set()
        self.banner: Banner | None = None
        self._index = {metric.name: i for i, metric in enumerate(resource_set.metrics)}
        self._cores_divided = cores_divided
        self._headers: dict[bytes, Header] = {}  # a free-running tool repeats the same few
        self._rows: dict[int, ProcessRow] = {}
        self._time = b""
        self._seen: frozenset[int] = frozenset()  # metrics of the reports in this tick
        self._restart(None)

    def feed(self, line: bytes) -> ProcessTick | None:
        """Take one line (with or without its newline); the tick that it completes, or None."""
        self.lines += 1
        if len(line) > MAX_LINE:
            self.rejected.add(self.lines, f"longer than {MAX_LINE} bytes")
            return None
        if b"\x1b" in line:
            line = without_colours(line)
        header = self._header
        if header is not None and b"ID" not in line and not line.startswith((b"#", b"Linux ")):
            return self._read_row(line, header)
        return self._read_other(line.strip())

    def flush(self) -> ProcessTick | None:
        """The tick in progress, if it has rows: at the end of input, or when the tool has gone quiet."""
        self._seen = frozenset()
        if not self._rows:
            return None
        tick = ProcessTick(self._time.decode("utf-8", "replace"), self._rows)
        self._rows = {}
        return tick

    @property
    def gathered(self) -> Mapping[int, ProcessRow]:
        """The rows of the tick in progress, by pid."""
        return self._rows

    @property
    def time(self) -> str:
        """The time of the newest tick, as printed."""
        return self._time.decode("utf-8", "replace")

    def _restart(self, found: Banner | None) -> None:
        self.banner = found
        self._header: Header | None = None
        self._time_tokens = 1
        self._first_header_time = b""
        self._turn_of_second = True  # a tick may go on across it: until shown otherwise

    def _read_other(self, line: bytes) -> ProcessTick | None:
        """A line that may be a banner, a header or a comment, and else is a row."""
        if found := banner(line):
            self.skipped += 1
            tick = self.flush()
            self._restart(found)
            return tick
        tokens = line.split()
        at = identity_at(tokens)
        if at >= 0 and names_process(tokens[at:]):
            return self._read_header(tokens[at:], b" ".join(tokens[:at]))
        if at >= 0 or without_pid(tokens):
            self.rejected.add(self.lines, "a header without PID")
            self._header = None
            return self.flush()
        if not tokens or line.startswith(b"#"):
            self.skipped += 1
        elif self._header is not None:
            return self._read_row(line, self._header)
        else:
            self.rejected.add(self.lines, "a row before any header")
        return None

    def _read_header(self, names: list[bytes], time: bytes) -> ProcessTick | None:
        self.skipped += 1
        key = b" ".join(names)
        header = self._headers.get(key)
        if header is None:
            header = Header(names, self._index, self._cores_divided)
            if len(self._headers) < _MAX_HEADERS:
                self._headers[key] = header
                self.unknown.update(unknown_names(names))
        header.seen_at(time)
        self._header = header
        self._first_header_time = self._first_header_time or time
        # a report that comes again starts the next tick
        again = header.line_layout or header.average or header.metrics & self._seen
        tick = self.flush() if again else None
        self._seen |= header.metrics
        return tick

    def _read_row(self, line: bytes, header: Header) -> ProcessTick | None:
        offset = self._time_tokens
        parts = line.split(None, offset + header.width - 1)
        if not parts:
            self.skipped += 1
            return None
        if len(parts) != offset + header.width or not fits(parts, offset, header):
            parts, offset = split_row(line, header)
            if not offset:
                self._unplaced(line.split(None, header.width + 2), header)
                return None
            self._time_tokens = offset
        time = parts[0] if offset == 1 else b" ".join(parts[:offset])
        if time != self._time and self._no_sample(time, header):
            self.skipped += 1
            return None
        if not header.metrics or (header.tid >= 0 and parts[offset + header.tid] != b"-"):
            self.skipped += 1  # a report that is not ours (-s, -v, -R, children), or a thread
            return None
        return self._add(parts[offset:], time, header)

    def _no_sample(self, time: bytes, header: Header) -> bool:
        """Averages: over the run, or (a header with the time of its rows) since boot."""
        return not has_digit(time) or (not header.line_layout and time == header.time == self._first_header_time)

    def _unplaced(self, tokens: list[bytes], header: Header) -> None:
        average = tokens[0].endswith(b":") or header.average
        if average and not any(has_digit(token) for token in tokens[:2]):
            self.skipped += 1
        elif len(tokens) <= header.width:
            self.rejected.add(self.lines, f"{len(tokens)} values for {header.width + 1} columns")
        else:
            self.rejected.add(self.lines, "no process id where the header has it")

    def _add(self, parts: list[bytes], time: bytes, header: Header) -> ProcessTick | None:
        pid = int(parts[header.pid]) if parts[header.pid] != b"-" else 0
        if not 0 < pid <= _MAX_PID:
            self.rejected.add(self.lines, "a process id that no kernel gives")
            return None
        if not aligned(parts, header):
            self.rejected.add(self.lines, "more or fewer values than columns")
            return None
        found = _samples(parts, header)
        if found is None:
            self.rejected.add(self.lines, "no value can be read")
            return None
        tick = None
        if self._rows and self._starts_tick(time, pid, header):
            tick = self.flush()
            self._seen = header.metrics
        if not self._rows:
            self._time = time
        self.parsed += 1
        values, row_codes = found
        row = self._rows.get(pid)
        if row is None:
            self._rows[pid] = ProcessRow(
                self.lines, pid, parts[-1].strip().decode("utf-8", "replace"), values, row_codes
            )
        else:
            for target in header.targets:
                row.values[target] = values[target]
                row.codes[target] = row_codes[target]
        return tick

    def _starts_tick(self, time: bytes, pid: int, header: Header) -> bool:
        """Whether a row belongs to the tick after the one in progress."""
        row = self._rows.get(pid)
        again = row is not None and any(row.codes[target] != codes.MISSING for target in header.targets)
        if time == self._time:
            return again
        if header.line_layout and not again and self._turn_of_second and pid > next(reversed(self._rows)):
            try:
                if int(time) == int(self._time) + 1:
                    return False
            except ValueError:
                pass  # no seconds since 1970: such versions print one time for all rows
        self._turn_of_second = False  # ticks follow each other without headers
        return True


def _samples(parts: list[bytes], header: Header) -> tuple[list[float], bytearray] | None:
    """Values and codes of a row (``parts`` without the time); None when not one of them can be read."""
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
