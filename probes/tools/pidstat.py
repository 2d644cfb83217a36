"""Pidstat parser, fed line by line; pure: no process, no clock.

Source: pidstat(1) and pidstat.c of sysstat 10.0 to 12.7. Columns are found by their header
names. The two layouts:

- ``-h``: a header that starts with ``#``, then one line per process with all columns;
- else a block per report (-u, -r, -d, -w): a blank line, a header that starts with the time
  of the previous sample, then a line per process. The blocks of one tick are merged.

Facts the code relies on:

- the time precedes UID, USER, PID or TGID, with the same number of words in a row as in the header
  of its block (``13:00:01``, ``01:00:01 PM``, ``UTC 13:00:01``). With -h it ends where the
  tokens after it match the columns;
- averages (``Average:`` in any language) have no digit in the time field; they are not samples;
- ``Command`` is last, after two spaces. It may contain spaces or be empty, and with -l line
  feeds, so that what follows may look like anything: a line that fits the header is a row, whatever its
  command; a header that differs from that of its block comes after a blank line; and if a block has
  lines that are not rows, a row has its values where printf puts them;
- with -t a row with a number below TID is a thread: not an entity, it is skipped, its
  process has its own row;
- %usr excludes guest time (utime - gtime), %CPU includes it; per cent of one core. With -I
  %CPU alone is divided by the number of CPUs, which the caller must know;
- -1.00 in a disk column means that /proc/PID/io may not be read: MISSING;
- iodelay counts clock ticks in the interval, all other rates are per second; kB are 1024 bytes;
- rows of 10.x and 11.x with -h have the time at which the row was printed, so a tick may
  cross the turn of a second there;
- without an interval the rates are averages since boot, and the header of the (only) block
  has the time of its rows: no samples. If times have no seconds, these are samples if anything of
  their run follows them. The -h layout does not show this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from acquisition.model import codes
from acquisition.model.metric import ResourceSet
from probes.metrics import PROCESSES
from probes.tools.pidstat_header import Header, identity_at, names_process, without_pid
from probes.tools.pidstat_row import Placed, as_printed, fits, looks_aligned, place, samples, typed
from probes.tools.tool_output import (
    AVERAGE,
    COMMENT,
    HEADER,
    OTHER,
    SINCE_BOOT,
    THREAD,
    Banner,
    LineParser,
    ascii_digits,
    banner,
    has_digit,
    has_seconds,
)

_MAX_PID = 1 << 22  # PID_MAX_LIMIT
_LONGEST_PID = 8  # digits, and one more
_MAX_HEADERS = 64  # to cache: garbage must not fill the memory
_SHIFT = 2  # maximum offset of columns from their names, in characters, in some versions
_NO_ROW = (b"#", b"Linux ")
_RESTART = b" LINUX RESTART"  #: between runs in files of sysstat


class ProcessRow:
    """One process at one tick: values and codes in the order of the resource set.

    ``line`` is the number of the first line about the process in this tick.
    """

    __slots__ = ("codes", "command", "line", "pid", "values")

    def __init__(self, line: int, pid: int, command: str, values: list[float], row_codes: bytearray) -> None:
        self.line = line
        self.pid = pid
        self.command = command
        self.values = values
        self.codes = row_codes


class ProcessTick(NamedTuple):
    """All rows of one tick, by pid; ``time`` as printed; ``rejected``: pids of unreadable rows."""

    time: str
    rows: dict[int, ProcessRow]
    rejected: frozenset[int] = frozenset()


class PidstatParser(LineParser):
    """Takes lines, returns ticks; a tick is complete when the next one starts, or on ``flush``.

    ``cores_divided`` is the divisor of %CPU in ``pidstat -I``, the number of CPUs (0: not used).
    ``banner``: that of the newest start.
    """

    def __init__(self, resource_set: ResourceSet = PROCESSES, *, cores_divided: int = 0) -> None:
        super().__init__()
        self._index = {metric.name: i for i, metric in enumerate(resource_set.metrics)}
        self._cores_divided = cores_divided
        self._headers: dict[bytes, Header] = {}  # a free-running tool repeats a small number of them
        self._rows: dict[int, ProcessRow] = {}
        self._time = b""
        self._seen: frozenset[int] = frozenset()  # metrics of the reports in this tick
        self._refused: set[int] = set()  # pids of rejected rows of this tick
        self._unsure = 0
        self._restart(None)

    def feed(self, line: bytes) -> ProcessTick | None:
        """Process one line (with or without its newline); returns the tick completed by it, or None."""
        usable = self._usable(line)
        if usable is None:
            self._doubt = True
            return None
        header = self._header
        if header is not None and not usable.startswith(_NO_ROW):
            row = self._placed(usable, header)
            if row is not None:
                self._blank = False
                return self._read_row(usable, row, header)
        return self._read_other(usable.strip())

    def flush(self) -> ProcessTick | None:
        """The tick in progress, if it has rows, including rejected ones: at the end of input, or when the tool
        has become quiet."""
        self._seen = frozenset()
        if self._unsure:  # the only tick of its run, without a sign of an interval
            self.passed[SINCE_BOOT] = self.passed.get(SINCE_BOOT, 0) + self._unsure
            self.parsed -= self._unsure
            self._unsure, self._rows = 0, {}
        return self._finish()

    def _finish(self) -> ProcessTick | None:
        if not self._rows and not self._refused:
            return None
        tick = ProcessTick(self.time, self._rows, frozenset(self._refused))
        self._rows, self._refused = {}, set()
        self._unsure, self._first = 0, False
        return tick

    @property
    def gathered(self) -> Mapping[int, ProcessRow]:
        """Rows of the tick in progress, by pid."""
        return self._rows

    @property
    def refused(self) -> set[int]:
        """Pids of unreadable rows of the tick in progress."""
        return self._refused

    @property
    def time(self) -> str:
        """Time of the newest tick, as printed."""
        return self._time.decode("utf-8", "replace")

    def _restart(self, found: Banner | None) -> None:
        self.banner = found
        self._header: Header | None = None
        self._time_words = 0  # in a row; 0: unknown
        self._turn_of_second = True  # a tick may cross it: until shown otherwise
        self._blank = True  # the previous line was blank
        self._spaced = False  # headers come after blank lines
        self._doubt = False  # this block has no header, or lines that are not rows
        self._first = True  # no tick of this run is complete
        self._unsure = 0  # rows of the tick in progress that may be averages since boot
        self._time = b""

    def _placed(self, line: bytes, header: Header) -> Placed | None:
        words = self._time_words
        parts = line.split(None, words + header.width - 1)
        if words and not header.named and len(parts) == words + header.width and fits(parts, words, header):
            row: Placed | None = Placed(parts[words:], b" ".join(parts[:words]), words)
        else:
            row = place(line, header, words)
            if row is not None:
                self._time_words = len(row.time.split())
        if row is None or (
            (self._doubt or (header.padded and b"  " not in line[: -2 - len(row.values[-1])]))
            and not self._credible(line, row, header)
        ):
            return None
        return row

    def _credible(self, line: bytes, row: Placed, header: Header) -> bool:
        """Whether a line that fits its header may still be a row, although it has single spaces under a padded
        header, or a header may be missing, or other lines intervene: if kinds and places of values are right."""
        if self._doubt and not typed(row.values, header):
            return False
        return not header.padded or as_printed(line, row, header, _SHIFT)

    def _read_other(self, line: bytes) -> ProcessTick | None:
        """Process a line that is not a row."""
        tokens = line.split()
        if not tokens:
            self._pass(COMMENT)
            self._blank = self._doubt = True
            return None
        at = identity_at(tokens)
        tick = None
        if found := banner(line):
            self._pass(HEADER)
            tick = self.flush()
            self._restart(found)
        elif at > 0 or without_pid(tokens):
            tick = self._read_header(tokens, line, at)
        elif line.startswith(b"#") or tokens[0] == b"zzz":
            self._pass(COMMENT)
        elif _RESTART in line:
            self._pass(COMMENT)
            tick = self.flush()
            self._restart(self.banner)
        else:
            self._reject_line(line)
        self._blank = self._blank and found is not None
        return tick

    def _reject_line(self, line: bytes) -> None:
        """Reject a line of unknown meaning."""
        self._doubt = True
        header = self._header
        if header is None:
            self._reject("a row before any header")
            return
        tokens = line.split()
        if len(tokens) <= header.width:
            reason = f"{len(tokens)} values for {header.width + 1} columns"
        elif place(line, header, self._time_words):
            reason = "values not aligned with their names"
        else:
            reason = "no process id in its column"
        self._reject_row(tokens[self._time_words + header.pid :], 0, reason)

    def _reject_row(self, values: Sequence[bytes], at: int, reason: str) -> None:
        """Reject a row with its process id, if any, at ``at``."""
        self._reject(reason)
        if len(values) > at and values[at].isdigit() and len(values[at]) < _LONGEST_PID:
            self._refused.add(int(values[at]))

    def _read_header(self, tokens: Sequence[bytes], line: bytes, at: int) -> ProcessTick | None:
        """Process a header with its identity columns from ``at`` on (-1: it has none)."""
        text = line.split(None, at)[at] if at > 0 else line
        if self._header is not None and self._spaced and not self._blank:
            if self._header.text == text:
                self._pass(HEADER)  # a repetition changes nothing
            else:
                self._doubt = True
                self._reject("a header in the middle of a block")
            return None
        if at < 0 or not names_process(tokens[at:]):
            self._reject("a header without PID")
            self._header = None
            return self.flush()
        self._pass(HEADER)
        self._spaced = self._blank
        time = ascii_digits(b" ".join(tokens[:at]))
        header = self._headers.get(text)
        if header is None:
            header = Header(text, self._index, self._cores_divided)
            if len(self._headers) < _MAX_HEADERS:
                self._headers[text] = header
                self.unknown.update(header.unknown_names())
        header.seen_at(time)
        self._header = header
        self._doubt = False
        if not header.line_layout:
            self._time_words = len(time.split())
        # a repeated report starts the next tick
        again = header.line_layout or header.average or header.metrics & self._seen
        tick = self._finish() if again else None
        self._seen = header.metrics if again else self._seen | header.metrics
        return tick

    def _read_row(self, line: bytes, row: Placed, header: Header) -> ProcessTick | None:
        time = row.time if row.time.isascii() else ascii_digits(row.time)
        if time != self._time or time == header.time:
            if not has_digit(time) and not (header.average or header.line_layout):
                self._reject_row(row.values, header.pid, "no time")
                return None
            if kind := _no_sample(time, header):
                self._pass(kind)
                return None
        if not header.metrics:
            self._pass(OTHER)  # -s, -v, -R, children
            return None
        if header.tid >= 0 and row.values[header.tid] != b"-":
            self._pass(THREAD)
            return None
        return self._add(line, row, time, header)

    def _add(self, line: bytes, placed: Placed, time: bytes, header: Header) -> ProcessTick | None:
        parts = placed.values
        pid = int(parts[header.pid]) if parts[header.pid] != b"-" else 0
        if not 0 < pid <= _MAX_PID:
            self._reject("impossible process id")
            return None
        if not looks_aligned(parts, header) and not (typed(parts, header) and as_printed(line, placed, header)):
            self._reject_row(parts, header.pid, "number of values differs from number of columns")
            return None
        found = samples(parts, header)
        if found is None:
            self._reject_row(parts, header.pid, "no readable value")
            return None
        tick = None
        if self._rows and self._starts_tick(time, pid, header):
            if time == self._time and self._spaced and not header.line_layout:
                self._reject("duplicate process in one block")
                return None
            tick = self._finish()
            self._seen = header.metrics
        if not self._rows:
            self._time = time
        self.parsed += 1
        if self._first and time == header.time:
            self._unsure += 1
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
                pass  # no seconds since 1970: such versions print the same time in all rows
        self._turn_of_second = False  # ticks follow each other without headers
        return True


def _no_sample(time: bytes, header: Header) -> str:
    """Kind of a row with averages: over the run, or (with a header that has the time of its rows) since boot."""
    if not has_digit(time):
        return AVERAGE
    return SINCE_BOOT if time == header.time and not header.line_layout and has_seconds(time) else ""
