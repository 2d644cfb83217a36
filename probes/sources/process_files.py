"""One process read from /proc: the sixteen figures that pidstat prints, from four files kept open.

/proc/PID/stat gives CPU time, faults and memory of the whole process; like pidstat,
/proc/PID/status (context switches) and /proc/PID/schedstat (time spent waiting for a
core) give those of its first thread, and /proc/PID/io what it moved to and from storage.

This is where a probe spends its time. Hence equal text is not parsed again (equal text is
equal figures: no growth), and a first thread that has not run since (equal schedstat) has
not switched either. Of one that has run, taskstats gives both figures where it may be used;
else status, the costliest file of the four, has to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import O_CLOEXEC, O_RDONLY, close, open, pread

from acquisition.model.codes import FIRST, MISSING, NAN
from probes.procfs import read_once
from probes.rates import differences
from probes.taskstats import TaskStats

#: Columns of a row, in the order of probes.metrics.PROCESSES.
USER, SYSTEM, GUEST, WAIT, ALL_CPU, MINOR, MAJOR, VIRTUAL, RESIDENT, SHARE = range(10)
READ, WRITTEN, CANCELLED, DELAY, VOLUNTARY, INVOLUNTARY = range(10, 16)
WIDTH = 16

FILES = ("stat", "status", "io", "schedstat")
#: The columns that each of FILES gives; ``stat`` is always read: it tells whether the process lives.
COLUMNS: tuple[tuple[int, ...], ...] = (
    (USER, SYSTEM, GUEST, ALL_CPU, MINOR, MAJOR, DELAY, VIRTUAL, RESIDENT, SHARE),
    (VOLUNTARY, INVOLUNTARY),
    (READ, WRITTEN, CANCELLED),
    (WAIT,),
)
_STAT, _STATUS, _IO, _SCHEDSTAT = range(4)
_STAT_COUNTERS = COLUMNS[_STAT][:7]
#: user time is the rest without guest time, which the kernel accounts separately: it may step back a little
_JITTER_TICKS = 2
_NANOSECOND = 1e-9
_SHORT = 511  #: more than stat, io and schedstat take; small blocks are cheaper to allocate
_LONG = 16384  #: status, with a long list of groups
_CLOSED = -1
_ABSENT = -2
_SWITCHES = b"\nvoluntary_ctxt_switches:"
_STORAGE = b"read_bytes:"
_THREAD = (WAIT, VOLUNTARY, INVOLUNTARY)
_FIRSTS = (FIRST,) * WIDTH


class Units:
    """What turns the growth of one tick into figures; ``begin`` once per tick."""

    __slots__ = ("hertz", "memory_bytes", "page_size", "per_second", "per_tick", "task_stats")

    def __init__(self, hertz: int, page_size: int, task_stats: TaskStats | None = None) -> None:
        self.task_stats = task_stats
        self.hertz = hertz
        self.page_size = page_size
        self.per_second = self.per_tick = 0.0
        self.memory_bytes = 0.0

    def begin(self, seconds: float, memory_bytes: float) -> None:
        """``seconds`` of the monotonic clock since the previous tick."""
        self.per_second = 1.0 / seconds if seconds > 0 else 0.0
        self.per_tick = self.per_second / self.hertz
        self.memory_bytes = memory_bytes


class ProcessFiles:
    """The open files of one process, and what they said at the previous ``read``.

    ``values`` are the figures of the newest ``read`` (NaN: none) and ``codes`` their
    validity; ``flagged`` tells whether any of them is not VALID. ``start`` is the start
    time that the process must have, in clock ticks after the boot.
    """

    __slots__ = (
        "_base", "_descriptors", "_io", "_io_moved", "_io_text", "_marked", "_pid", "_ran", "_sched_text", "_start",
        "_stat", "_stat_moved", "_stat_text", "_steady", "_thread", "_thread_wanted", "codes", "flagged", "values",
    )  # fmt: skip

    def __init__(
        self,
        base: str,
        start: int,
        wanted: frozenset[int] = frozenset(range(4)),
        delays: bool = True,
        kept: frozenset[int] = frozenset(range(4)),
    ) -> None:
        """``wanted`` are the indices into FILES to read; ``delays`` tells whether the kernel
        accounts block I/O delays; files that are not in ``kept`` are opened at each read,
        because they are hardly read or because the host does not grant enough descriptors.
        Raises OSError when the process is gone."""
        self._base = base
        self._start = start
        self._stat_text = self._io_text = self._sched_text = b""
        self._stat_moved = self._io_moved = self._ran = False
        self._stat: tuple[int, ...] = ()
        self._io: tuple[int, ...] = ()
        self._thread: tuple[int, ...] = ()
        self._pid = int(base.rpartition("/")[2])
        self._thread_wanted = _SCHEDSTAT in wanted
        self.values = [NAN] * WIDTH
        self._steady = bytearray(WIDTH)  # codes that hold for every tick: VALID or MISSING
        if not delays:
            self._steady[DELAY] = MISSING
        #: per file: a descriptor, _CLOSED (open it at each read) or _ABSENT (not wanted, not readable)
        self._descriptors = [_CLOSED if file in wanted else _ABSENT for file in range(len(FILES))]
        for file in range(len(FILES)):
            if file not in wanted:
                self._miss(file)
            elif file in kept:
                self._open(file)
        self.codes = bytearray(self._steady)
        self._marked = True  # some codes are of this tick only
        self.flagged = True

    def read(self, units: Units) -> None:
        """Read the files and set ``values`` and ``codes``.

        Raises ProcessLookupError or FileNotFoundError when the process is gone.
        """
        if self._marked:
            self._marked = False
            self.codes[:] = self._steady
            self.flagged = any(self._steady)
        stat, io = self._descriptors[_STAT], self._descriptors[_IO]
        text = pread(stat, _SHORT, 0) if stat >= 0 else self._reopened(_STAT)
        if text != self._stat_text:
            self._take_stat(text, units)
        elif self._stat_moved:
            self._stat_moved = False
            self._still(_STAT_COUNTERS)
        if io != _ABSENT:
            try:
                text = pread(io, _SHORT, 0) if io >= 0 else self._reopened(_IO)
            except PermissionError:  # it runs as another user now
                text = b""
            text = text[text.find(_STORAGE) :]  # what went through caches and pipes (rchar, wchar) is no part of it
            if not text or text != self._io_text:
                self._take_io(text, units.per_second)
            elif self._io_moved:
                self._io_moved = False
                self._still(COLUMNS[_IO])
        if self._thread_wanted:
            self._read_thread(units)

    def _read_thread(self, units: Units) -> None:
        """Waiting time and switches of the first thread."""
        text = b""
        schedstat = self._descriptors[_SCHEDSTAT]
        if schedstat != _ABSENT and not (self._ran and units.task_stats is not None):
            text = pread(schedstat, _SHORT, 0) if schedstat >= 0 else self._reopened(_SCHEDSTAT)
            if text == self._sched_text:
                if self._ran:
                    self._ran = False
                    self._still(_THREAD)
                return
            self._sched_text = text
        new = self._thread_figures(text, units.task_stats)
        old, self._thread = self._thread, new
        if not old:
            self._ran = True
            self._mark(_THREAD, _FIRSTS)
            return
        grown, codes = differences(new, old)
        values, per_second = self.values, units.per_second
        self._ran = any(grown)
        values[WAIT] = NAN if self._steady[WAIT] else grown[0] * per_second * _NANOSECOND
        values[VOLUNTARY] = grown[1] * per_second
        values[INVOLUNTARY] = grown[2] * per_second
        if codes is not None:
            self._mark(_THREAD, codes)

    def _thread_figures(self, schedstat: bytes, task_stats: TaskStats | None) -> tuple[int, int, int]:
        """Nanoseconds of waiting, voluntary and involuntary switches; 0 for what is not wanted or not readable."""
        status = self._descriptors[_STATUS]
        if task_stats is not None and status != _ABSENT:
            figures = task_stats.read(self._pid)
            if figures is not None:
                return figures
        words = schedstat.split(None, 2)
        waited = int(words[1]) if len(words) == 3 else (self._thread[0] if self._thread else 0)
        if status == _ABSENT:
            return waited, 0, 0
        text = pread(status, _LONG, 0) if status >= 0 else self._reopened(_STATUS)
        words = text[text.rfind(_SWITCHES) :].split(None, 4)
        if len(words) < 4:
            self._miss(_STATUS)
            return waited, 0, 0
        return waited, int(words[1]), int(words[3])

    def _take_stat(self, text: bytes, units: Units) -> None:
        self._stat_text = text
        if len(text) == _SHORT:  # cut off: very large numbers
            text = read_once(f"{self._base}/stat")
        fields = text[text.rindex(b")") + 2 :].split()
        if int(fields[19]) != self._start:
            raise ProcessLookupError  # the pid is another process's now
        guest = int(fields[40])
        user, system = int(fields[11]), int(fields[12])
        # wire order: user, system, guest, all CPU, minor, major, delay
        new = (user - guest, system, guest, user + system, int(fields[7]), int(fields[9]), int(fields[39]))
        values = self.values
        values[VIRTUAL] = float(fields[20])
        resident = float(fields[21]) * units.page_size
        values[RESIDENT] = resident
        values[SHARE] = resident / units.memory_bytes if units.memory_bytes else NAN
        old, self._stat = self._stat, new
        self._stat_moved = True
        if not old:
            self._mark(_STAT_COUNTERS, _FIRSTS)
            return
        grown, codes = differences(new, old, _JITTER_TICKS)
        per_tick, per_second = units.per_tick, units.per_second
        values[USER] = grown[0] * per_tick
        values[SYSTEM] = grown[1] * per_tick
        values[GUEST] = grown[2] * per_tick
        values[ALL_CPU] = grown[3] * per_tick
        values[MINOR] = grown[4] * per_second
        values[MAJOR] = grown[5] * per_second
        values[DELAY] = NAN if self._steady[DELAY] else grown[6]
        if codes is not None:
            self._mark(_STAT_COUNTERS, codes)

    def _take_io(self, text: bytes, per_second: float) -> None:
        words = text.split()
        if len(words) < 6:
            self._miss(_IO)
            return
        self._io_text = text
        self._io_moved = True
        old, self._io = self._io, (int(words[1]), int(words[3]), int(words[5]))
        if not old:
            self._mark(COLUMNS[_IO], _FIRSTS)
            return
        grown, codes = differences(self._io, old)
        values = self.values
        values[READ] = grown[0] * per_second
        values[WRITTEN] = grown[1] * per_second
        values[CANCELLED] = grown[2] * per_second
        if codes is not None:
            self._mark(COLUMNS[_IO], codes)

    def _mark(self, columns: tuple[int, ...], codes: Sequence[int]) -> None:
        """Codes of this tick only."""
        for column, code in zip(columns, codes, strict=False):
            if code and not self._steady[column]:
                self.codes[column] = code
                self.values[column] = NAN
                self._marked = self.flagged = True

    def _still(self, columns: tuple[int, ...]) -> None:
        """Nothing has grown."""
        for column in columns:
            if not self._steady[column]:
                self.values[column] = 0.0

    def _miss(self, file: int) -> None:
        """The figures of a file cannot be had: MISSING from now on."""
        for column in COLUMNS[file]:
            self._steady[column] = MISSING
            self.values[column] = NAN
        if self._descriptors[file] >= 0:
            close(self._descriptors[file])
        self._descriptors[file] = _ABSENT
        self._marked = True

    def _open(self, file: int) -> None:
        try:
            self._descriptors[file] = open(f"{self._base}/{FILES[file]}", O_RDONLY | O_CLOEXEC)
        except OSError:
            if file == _STAT:
                raise
            self._miss(file)  # /proc/PID/io of another user's process, no schedstat in this kernel

    def _reopened(self, file: int) -> bytes:
        try:
            return read_once(f"{self._base}/{FILES[file]}")
        except PermissionError:
            if file == _STAT:
                raise
            return b""  # taken as MISSING

    def close(self) -> None:
        """Close the files."""
        for file, descriptor in enumerate(self._descriptors):
            if descriptor >= 0:
                close(descriptor)
                self._descriptors[file] = _CLOSED
