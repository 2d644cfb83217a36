"""Process files of /proc: pidstat's sixteen figures of one process.

Four files are kept open.

/proc/PID/stat gives CPU time, faults and memory of the whole process; like pidstat,
/proc/PID/status (context switches) and /proc/PID/schedstat (time spent waiting for a
core) give those of its first thread, and /proc/PID/io the bytes moved to and from storage.

A probe spends most of its time here. Hence equal text is not parsed again (equal text is
equal figures: no growth), and a first thread that has not run since (equal schedstat) has
not switched either. For one that has run, taskstats gives both figures if it may be used;
else status, the costliest file of the four, has to be read.

Text that the kernel would not write is UNREADABLE for this tick, and FIRST in the next one.
``_process_step.c`` does the same for all processes at once, if it could be compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import F_OK, O_CLOEXEC, O_RDONLY, access, close, open, pread

from acquisition.model.codes import FIRST, MISSING, NAN, RATE, UNREADABLE
from probes.figures.process_row import (
    ALL_CPU,
    CANCELLED,
    COLUMNS,
    DELAY,
    FILES,
    GUEST,
    INVOLUNTARY,
    MAJOR,
    MINOR,
    READ,
    RESIDENT,
    SHARE,
    SYSTEM,
    USER,
    VIRTUAL,
    VOLUNTARY,
    WAIT,
    WIDTH,
    WRITTEN,
    Units,
)
from probes.figures.row import differences
from probes.figures.taskstats import TaskStats
from probes.sampling.procfs import read_once

_STAT, _STATUS, _IO, _SCHEDSTAT = range(4)
_STAT_COUNTERS = COLUMNS[_STAT][:7]
_CPU_COUNTERS = _STAT_COUNTERS[:4]
#: user time is the rest without guest time, accounted separately by the kernel: it may step back a little
JITTER_TICKS = 2
_NANOSECOND = 1e-9
SHORT = 511  #: longer than stat, io and schedstat; small blocks are cheaper to allocate
LONG = 16384  #: status, with a long list of groups; stat with very large numbers
_MOST = (1 << 64) - 1  #: of a counter
_CLOSED = -1
_ABSENT = -2
_SWITCHES = b"\nvoluntary_ctxt_switches:"
_STORAGE = b"read_bytes:"
_THREAD = (WAIT, VOLUNTARY, INVOLUNTARY)
_FIRSTS = (FIRST,) * WIDTH
_UNREADABLES = (UNREADABLE,) * WIDTH


class ProcessFiles:
    """The open files of one process, and their state at the previous ``read``.

    ``values`` are the figures of the newest ``read`` (NaN: none) and ``codes`` their
    validity; ``flagged`` is whether any of them is not VALID; ``state`` is the letter of its state (proc(5)), 0
    if that cannot be read. ``start`` is the expected start time of the process, in clock ticks after the boot.
    """

    __slots__ = (
        "_base", "_descriptors", "_io", "_io_moved", "_io_text", "_marked", "_pid", "_ran", "_sched_text", "_start",
        "_stat", "_stat_moved", "_stat_text", "_steady", "_thread", "_thread_wanted", "_threads", "codes", "flagged",
        "state", "values",
    )  # fmt: skip

    def __init__(
        self,
        base: str,
        start: int,
        wanted: frozenset[int] = frozenset(range(4)),
        delays: bool = True,
        kept: frozenset[int] = frozenset(range(4)),
    ) -> None:
        """``wanted`` are the indices into FILES to read; ``delays`` is whether the kernel
        accounts block I/O delays; files not in ``kept`` are opened at each read,
        because they are rarely read or because the host does not grant enough descriptors.
        Raises OSError if the process is gone."""
        self._base = base
        self._start = start
        self._stat_text: bytes | None = None
        self._io_text = self._sched_text = b""
        self._stat_moved = self._io_moved = self._ran = False
        self._stat: tuple[int, ...] = ()
        self._threads = 0
        self._io: tuple[int, ...] = ()
        self._thread: tuple[int, ...] = ()
        self._pid = int(base.rpartition("/")[2])
        self._thread_wanted = _SCHEDSTAT in wanted
        self.values = [NAN] * WIDTH
        self._steady = bytearray(WIDTH)  # codes that hold for every tick: VALID or MISSING
        if not delays:
            self._steady[DELAY] = MISSING
        self.codes = bytearray(self._steady)
        self._marked = True  # some codes are of this tick only
        self.flagged = True
        self.state = 0
        #: per file: a descriptor, _CLOSED (open it at each read) or _ABSENT (not wanted, not readable)
        self._descriptors = [_CLOSED if file in wanted else _ABSENT for file in range(len(FILES))]
        for file in range(len(FILES)):
            if file not in wanted:
                self._miss(file)
            elif file in kept:
                self._open(file)

    def read(self, units: Units) -> None:
        """Read the files and set ``values`` and ``codes``.

        Raises ProcessLookupError or FileNotFoundError if the process is gone.
        """
        if self._marked:
            self._marked = False
            self.codes[:] = self._steady
            self.flagged = any(self._steady)
        stat = self._descriptors[_STAT]
        text = pread(stat, SHORT, 0) if stat >= 0 else read_once(f"{self._base}/stat", SHORT)
        if len(text) == SHORT:  # truncated: very large numbers
            text = read_once(f"{self._base}/stat", LONG)
        if text != self._stat_text:
            self._take_stat(text, units)
        elif self._stat_moved:
            self._stat_moved = False
            self._still(_STAT_COUNTERS)
        if self._descriptors[_IO] != _ABSENT:
            text = self._text(_IO)
            at = text.find(_STORAGE)  # traffic of caches and pipes (rchar, wchar) is not included
            moved = text[at:] if at >= 0 and len(text) < SHORT else b""
            if not text:  # it runs as another user now
                self._miss(_IO)
            elif not moved or moved != self._io_text:
                self._take_io(moved, units.per_second)
            elif self._io_moved:
                self._io_moved = False
                self._still(COLUMNS[_IO])
        if self._thread_wanted:
            self._read_thread(units)

    def _read_thread(self, units: Units) -> None:
        """Waiting time and switches of the first thread."""
        text = b""
        if self._descriptors[_SCHEDSTAT] != _ABSENT and not (self._ran and units.task_stats is not None):
            text = self._text(_SCHEDSTAT)
            if text == self._sched_text and self._thread:
                if self._ran:
                    self._ran = False
                    self._still(_THREAD)
                return
            self._sched_text = text
        try:
            new = self._thread_figures(text, units.task_stats)
        except ValueError:
            self._thread = ()
            self._mark(_THREAD, _UNREADABLES)
            return
        old, self._thread = self._thread, new
        if not old:
            self._ran = True
            self._mark(_THREAD, _FIRSTS)
            return
        grown, codes = differences(new, old)
        values, steady, per_second = self.values, self._steady, units.per_second
        self._ran = any(grown)
        values[WAIT] = NAN if steady[WAIT] else grown[0] * (per_second * _NANOSECOND)
        values[VOLUNTARY] = NAN if steady[VOLUNTARY] else grown[1] * per_second
        values[INVOLUNTARY] = NAN if steady[INVOLUNTARY] else grown[2] * per_second
        if codes is not None:
            self._mark(_THREAD, codes)

    def _thread_figures(self, schedstat: bytes, task_stats: TaskStats | None) -> tuple[int, ...]:
        """Nanoseconds of waiting, voluntary and involuntary switches; 0 for unwanted or unreadable ones.
        Raises ValueError for invalid text."""
        absent = self._descriptors[_STATUS] == _ABSENT
        if task_stats is not None and not absent:
            figures = task_stats.read(self._pid)
            if figures is not None:
                return figures
        waited = self._waited(schedstat)
        if absent:
            return waited, 0, 0
        text = self._text(_STATUS, LONG)
        words = text[text.rfind(_SWITCHES) :].split(None, 4)
        if len(words) < 4:
            self._miss(_STATUS)
            return waited, 0, 0
        return waited, *numbers([words[1], words[3]])

    def _waited(self, schedstat: bytes) -> int:
        """Nanoseconds of waiting; 0 if not available. Raises ValueError for invalid text."""
        if self._descriptors[_SCHEDSTAT] == _ABSENT:
            return 0
        text = schedstat or self._text(_SCHEDSTAT)
        if not text:
            self._miss(_SCHEDSTAT)
            return 0
        _, waited, _ = text.split(None, 2)
        return numbers([waited])[0]

    def _take_stat(self, text: bytes, units: Units) -> None:
        self._stat_text = text
        try:
            if len(text) == LONG:
                raise ValueError
            fields = text[text.rindex(b")") + 2 :].split()
            # user with guest time, system, guest, minor, major, delay, virtual, resident, start, threads
            found = numbers([fields[i] for i in (11, 12, 40, 7, 9, 39, 20, 21, 19, 17)])
        except (ValueError, IndexError):
            self._stat_text, self._stat, self.state = None, (), 0
            self._mark(COLUMNS[_STAT], _UNREADABLES)
            return
        user, system, guest, minor, major, delay, virtual, pages, start, threads = found
        if start != self._start:
            raise ProcessLookupError  # the pid now belongs to another process
        self.state = fields[0][0]
        new = (user - guest, system, guest, user + system, minor, major, delay)
        values = self.values
        values[VIRTUAL] = float(virtual)
        resident = float(pages) * units.page_size
        values[RESIDENT] = resident
        values[SHARE] = resident / units.memory_bytes if units.memory_bytes else NAN
        old, self._stat = self._stat, new
        most_threads, self._threads = max(threads, self._threads, 1), threads
        self._stat_moved = True
        if not old:
            self._mark(_STAT_COUNTERS, _FIRSTS)
            return
        grown, codes = differences(new, old, JITTER_TICKS)
        per_tick, per_second = units.per_tick, units.per_second
        values[USER] = grown[0] * per_tick
        values[SYSTEM] = grown[1] * per_tick
        values[GUEST] = grown[2] * per_tick
        values[ALL_CPU] = grown[3] * per_tick
        values[MINOR] = grown[4] * per_second
        values[MAJOR] = grown[5] * per_second
        values[DELAY] = NAN if self._steady[DELAY] else float(grown[6])
        if codes is not None:
            self._mark(_STAT_COUNTERS, codes)
        limit = most_threads * units.thread_cores
        for column in _CPU_COUNTERS:
            if values[column] > limit:
                self.codes[column] = RATE
                self._marked = self.flagged = True

    def _take_io(self, text: bytes, per_second: float) -> None:
        self._io_text = text
        self._io_moved = True
        try:
            new = numbers(text.split()[1:6:2])
            if len(new) < len(COLUMNS[_IO]):
                raise ValueError
        except ValueError:
            self._io_text, self._io = b"", ()
            self._mark(COLUMNS[_IO], _UNREADABLES)
            return
        old, self._io = self._io, new
        if not old:
            self._mark(COLUMNS[_IO], _FIRSTS)
            return
        grown, codes = differences(new, old)
        values = self.values
        values[READ] = grown[0] * per_second
        values[WRITTEN] = grown[1] * per_second
        values[CANCELLED] = grown[2] * per_second
        if codes is not None:
            self._mark(COLUMNS[_IO], codes)

    def _mark(self, columns: tuple[int, ...], codes: Sequence[int]) -> None:
        """Set codes of this tick only."""
        for column, code in zip(columns, codes, strict=False):
            if code and not self._steady[column]:
                self.codes[column] = code
                self.values[column] = NAN
                self._marked = self.flagged = True

    def _still(self, columns: tuple[int, ...]) -> None:
        """Mark these columns as not grown."""
        for column in columns:
            if not self._steady[column]:
                self.values[column] = 0.0

    def _miss(self, file: int) -> None:
        """The figures of a file are not available: MISSING from now on."""
        for column in COLUMNS[file]:
            self._steady[column] = self.codes[column] = MISSING
            self.values[column] = NAN
        self.flagged = True
        if self._descriptors[file] >= 0:
            close(self._descriptors[file])
        self._descriptors[file] = _ABSENT

    def _open(self, file: int) -> None:
        try:
            self._descriptors[file] = open(f"{self._base}/{FILES[file]}", O_RDONLY | O_CLOEXEC)
        except OSError:
            if file == _STAT:
                raise
            self._miss(file)  # /proc/PID/io of another user's process, no schedstat in this kernel

    def _text(self, file: int, size: int = SHORT) -> bytes:
        """Text of a file other than ``stat``; empty, taken as MISSING, if it may not be read any more, or does not
        exist although the process does."""
        descriptor = self._descriptors[file]
        try:
            return pread(descriptor, size, 0) if descriptor >= 0 else read_once(f"{self._base}/{FILES[file]}", size)
        except PermissionError:
            return b""
        except FileNotFoundError:
            if not access(f"{self._base}/stat", F_OK):
                raise
            return b""

    def close(self) -> None:
        """Close the files."""
        for file, descriptor in enumerate(self._descriptors):
            if descriptor >= 0:
                close(descriptor)
                self._descriptors[file] = _CLOSED


def numbers(words: Sequence[bytes]) -> tuple[int, ...]:
    """The 64-bit whole numbers in these words. Raises ValueError if one of them is invalid."""
    if not b"".join(words).isdigit():
        raise ValueError(words)
    found = tuple(map(int, words))
    if max(found) > _MOST:
        raise ValueError(words)
    return found
