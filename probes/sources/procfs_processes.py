"""Processes from /proc: the same sixteen figures as pidstat, see ``process_files``."""

from __future__ import annotations

import os

from acquisition.model.identity import entity_id
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.discovery import Discovery, Found
from probes.host_facts import HostFacts
from probes.metrics import PROCESSES
from probes.reading import Reading
from probes.sources import Request
from probes.sources.polled import Polled
from probes.sources.process_files import COLUMNS, FILES, WIDTH, ProcessFiles, Units
from probes.taskstats import connect

#: Descriptors that are left for everything else.
_RESERVED = 64
_STATUS, _SCHEDSTAT = FILES.index("status"), FILES.index("schedstat")


def create(request: Request) -> ProcessSource:
    """See ``probes.sources``."""
    return ProcessSource(request.resource_set, request.facts, request.discovery)


def process_entity(facts: HostFacts, found: Found) -> Entity:
    """The row of one process: its epoch is its start within a boot, so a reused pid is another entity."""
    stable, epoch = f"{facts.name}:{found.pid}", f"{facts.boot_id}:{found.start}"
    labels = {"pid": str(found.pid), "uid": str(found.uid)}
    return Entity(entity_id("process", stable, epoch), "process", stable, epoch, found.command, labels)


def wanted_files(columns: tuple[int, ...]) -> frozenset[int]:
    """The files (indices into FILES) that the columns need; ``stat`` always, ``schedstat`` before ``status``."""
    files = {file for file, given in enumerate(COLUMNS) if file == 0 or set(given).intersection(columns)}
    if _STATUS in files:
        files.add(_SCHEDSTAT)
    return frozenset(files)


class Watched:
    """Keeps ``ProcessFiles`` for those that discovery found, and reads them all."""

    def __init__(self, facts: HostFacts, discovery: Discovery, columns: tuple[int, ...]) -> None:
        self.files: dict[int, ProcessFiles] = {}
        self._found: dict[int, Found] = {}
        self._facts = facts
        self._discovery = discovery
        self._wanted = wanted_files(columns)
        self._delays = facts.delay_accounting
        task_stats = connect() if _STATUS in self._wanted and facts.proc == "/proc" else None
        self._units = Units(facts.hertz, facts.page_size, task_stats)
        self._kept = self._wanted - {_STATUS} if task_stats else self._wanted
        self._budget = max(0, int(os.sysconf("SC_OPEN_MAX")) - _RESERVED) // len(FILES)

    def follow(self, found: dict[int, Found]) -> bool:
        """Watch exactly these processes; whether anything has changed."""
        if self._delays != self._facts.delay_accounting:
            self._delays = self._facts.delay_accounting
            self._drop(list(self.files))
        gone = [pid for pid, old in self._found.items() if pid not in found or found[pid].start != old.start]
        self._drop(gone)
        come = [each for pid, each in found.items() if pid not in self.files]
        for each in come:
            self._add(each)
        renamed = [pid for pid, old in self._found.items() if found[pid] != old]
        for pid in renamed:
            self._found[pid] = found[pid]
        return bool(gone or come or renamed)

    def _add(self, found: Found) -> None:
        kept = self._kept if len(self.files) < self._budget else frozenset[int]()
        base = f"{self._facts.proc}/{found.pid}"
        try:
            self.files[found.pid] = ProcessFiles(base, found.start, self._wanted, self._delays, kept)
            self._found[found.pid] = found
        except OSError:
            self._discovery.forget(found.pid)

    def _drop(self, pids: list[int]) -> None:
        for pid in pids:
            files = self.files.pop(pid, None)
            self._found.pop(pid, None)
            if files is not None:
                files.close()

    def read(self, seconds: float) -> bool:
        """Read all; True when some were gone, which are no longer watched."""
        units = self._units
        units.begin(seconds, self._facts.memory_bytes)
        gone = []
        for pid, files in self.files.items():
            try:
                files.read(units)
            except OSError:  # ESRCH: it has ended
                gone.append(pid)
        self._drop(gone)
        for pid in gone:
            self._discovery.forget(pid)
        return bool(gone)

    def found(self) -> list[Found]:
        """Those that are watched, in the order of ``files``."""
        return [self._found[pid] for pid in self.files]

    def account(self) -> dict[str, object]:
        """How many are watched, how many of them without open files, and whether taskstats helps."""
        return {
            "watched": len(self.files),
            "reopened": max(0, len(self.files) - self._budget),
            "taskstats": self._units.task_stats is not None,
        }

    def close(self) -> None:
        """Close all files."""
        self._drop(list(self.files))
        if self._units.task_stats is not None:
            self._units.task_stats.close()


class ProcessSource(Polled):
    """All selected processes; those that vanish drop out of the reading in which they are missed."""

    name = "procfs"

    def __init__(self, resource_set: ResourceSet, facts: HostFacts, discovery: Discovery) -> None:
        names = [metric.name for metric in PROCESSES.metrics]
        columns = tuple(names.index(metric.name) for metric in resource_set.metrics)
        self._set = resource_set
        self._facts = facts
        self._discovery = discovery
        self._columns = None if columns == tuple(range(WIDTH)) else columns
        self._watched = Watched(facts, discovery, columns)
        self._entities: list[Entity] = []
        self._generation = -1
        self._last = 0.0

    def sample(self, wall: float, monotonic: float) -> Reading:
        """See ``Source``."""
        generation = self._discovery.refresh(monotonic)
        changed = False
        if generation != self._generation:
            self._generation = generation
            changed = self._watched.follow(self._discovery.processes)
        seconds = monotonic - self._last if self._last else 0.0
        self._last = monotonic
        if self._watched.read(seconds) or changed:
            self._entities = [process_entity(self._facts, found) for found in self._watched.found()]
        values, codes = rows(list(self._watched.files.values()), self._columns)
        facts = self._facts
        return Reading(
            self._set, self._entities, values, codes, wall, monotonic, seconds, facts.cores, facts.memory_bytes
        )

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        return {**self._watched.account(), "left_out": self._discovery.left_out}

    def close(self) -> None:
        """See ``Source``."""
        self._watched.close()


def rows(files: list[ProcessFiles], columns: tuple[int, ...] | None) -> tuple[list[float], bytearray]:
    """Values and codes of all, row by row; only ``columns`` unless None."""
    values: list[float] = []
    if columns is None:
        codes = bytearray(len(files) * WIDTH)
        for number, each in enumerate(files):
            values += each.values
            if each.flagged:
                codes[number * WIDTH : (number + 1) * WIDTH] = each.codes
        return values, codes
    codes = bytearray()
    for each in files:
        values += [each.values[column] for column in columns]
        codes += bytes([each.codes[column] for column in columns])
    return values, codes
