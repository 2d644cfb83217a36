"""Process table: all processes in one call of C code, else one by one."""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection
from typing import Protocol

from probes.figures.agreed import PROCESSES
from probes.figures.process_files import ProcessFiles
from probes.figures.process_row import WIDTH, Units

_VALUE = 8  #: bytes of a float64


class ProcessTable(Protocol):
    """Processes with their open files, in the order of addition."""

    def pids(self) -> Collection[int]:
        """Pids in the table."""

    def add(self, pid: int, start: int, wanted: frozenset[int], delays: bool, kept: frozenset[int]) -> None:
        """Open the files of a process; the arguments are those of ``ProcessFiles``. Raises OSError if it is gone."""

    def drop(self, pids: Collection[int]) -> None:
        """Close the files of processes in the table."""

    def read(self, units: Units) -> list[int]:
        """Read all; returns the pids of those that were gone, which are no longer in the table."""

    def rows(self) -> tuple[array[float], bytearray]:
        """Figures of the newest ``read`` and their codes, WIDTH of each process, in the order of ``pids``."""

    def states(self) -> bytes:
        """Letter of the state of each at the newest ``read``, see ``ProcessFiles``."""


def create(proc: str) -> ProcessTable:
    """A table of processes below ``proc``."""
    return PythonTable(proc) if PROCESSES is None else NativeTable(proc)


class PythonTable:
    """See ``ProcessTable``: each process by itself."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._files: dict[int, ProcessFiles] = {}

    def pids(self) -> Collection[int]:
        """See ``ProcessTable``."""
        return self._files.keys()

    def add(self, pid: int, start: int, wanted: frozenset[int], delays: bool, kept: frozenset[int]) -> None:
        """See ``ProcessTable``."""
        self._files[pid] = ProcessFiles(f"{self._proc}/{pid}", start, wanted, delays, kept)

    def drop(self, pids: Collection[int]) -> None:
        """See ``ProcessTable``."""
        for pid in list(pids):
            self._files.pop(pid).close()

    def read(self, units: Units) -> list[int]:
        """See ``ProcessTable``."""
        gone = []
        for pid, files in self._files.items():
            try:
                files.read(units)
            except OSError:  # ESRCH: it has ended
                gone.append(pid)
        self.drop(gone)
        return gone

    def rows(self) -> tuple[array[float], bytearray]:
        """See ``ProcessTable``."""
        values = array("d")
        codes = bytearray(len(self._files) * WIDTH)
        for number, each in enumerate(self._files.values()):
            values.extend(each.values)
            if each.flagged:
                codes[number * WIDTH : (number + 1) * WIDTH] = each.codes
        return values, codes

    def states(self) -> bytes:
        """See ``ProcessTable``."""
        return bytes(each.state for each in self._files.values())


class NativeTable:
    """See ``ProcessTable``: ``_process_step.c`` reads all in one call."""

    def __init__(self, proc: str) -> None:
        assert PROCESSES is not None
        self._step = PROCESSES
        self._proc = os.fsencode(proc)
        self._pids: list[int] = []
        self._records = bytearray()
        self._size = 0  # of a record
        self._values: array[float] = array("d")
        self._codes = bytearray()
        self._states = bytearray()

    def pids(self) -> Collection[int]:
        """See ``ProcessTable``."""
        return self._pids

    def add(self, pid: int, start: int, wanted: frozenset[int], delays: bool, kept: frozenset[int]) -> None:
        """See ``ProcessTable``."""
        record = self._step.open_process(self._proc, pid, start, _bits(wanted), _bits(kept), delays)
        self._size = len(record)
        self._records += record
        self._pids.append(pid)

    def drop(self, pids: Collection[int]) -> None:
        """See ``ProcessTable``."""
        for pid in list(pids):
            self._drop_row(self._pids.index(pid))

    def _drop_row(self, row: int) -> None:
        del self._pids[row]
        place = slice(row * self._size, (row + 1) * self._size)
        self._step.close_processes(self._records[place])
        del self._records[place]

    def read(self, units: Units) -> list[int]:
        """See ``ProcessTable``."""
        cells = len(self._pids) * WIDTH
        values, codes, states = array("d", bytes(cells * _VALUE)), bytearray(cells), bytearray(len(self._pids))
        stats = units.task_stats
        rows = self._step.read_processes(
            self._records,
            values,
            codes,
            states,
            self._proc,
            units.per_second,
            units.per_tick,
            units.page_size,
            units.memory_bytes,
            units.thread_cores,
            *((-1, 0, 0) if stats is None else (stats.fileno(), stats.family, stats.at)),
        )
        gone = [self._pids[row] for row in rows]
        for row in reversed(rows):
            self._drop_row(row)
            place = slice(row * WIDTH, (row + 1) * WIDTH)
            del values[place], codes[place], states[row]
        self._values, self._codes, self._states = values, codes, states
        return gone

    def rows(self) -> tuple[array[float], bytearray]:
        """See ``ProcessTable``."""
        return self._values, self._codes

    def states(self) -> bytes:
        """See ``ProcessTable``."""
        return bytes(self._states)


def _bits(files: frozenset[int]) -> int:
    return sum(1 << file for file in files)
