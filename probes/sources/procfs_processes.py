"""Process source from /proc: pidstat's sixteen figures (``process_files``)."""

from __future__ import annotations

import os
from array import array

from acquisition.model.identity import entity_id
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import DAEMON, Entity
from probes.figures import process_table
from probes.figures.process_row import ALL_CPU, COLUMNS, FILES, WIDTH, Units
from probes.figures.taskstats import connect
from probes.metrics import PROCESSES
from probes.processes.discovery import Discovery, is_daemon
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sources import Polled, Request
from probes.vms.guest_process import Found

#: Descriptors reserved for everything else.
_RESERVED = 64
_PIDFDS = 1  #: of a virtual machine (``probes.processes.endings``)
_STATUS, _SCHEDSTAT = FILES.index("status"), FILES.index("schedstat")


def create(request: Request) -> ProcessSource:
    """See ``probes.sources``."""
    return ProcessSource(request.resource_set, request.facts, request.discovery)


def process_entity(facts: HostFacts, found: Found) -> Entity:
    """The row of one process: its epoch is its start within a boot, so a reused pid is another entity."""
    stable, epoch = f"{facts.name}:{found.pid}", f"{facts.boot_id}:{found.start}"
    labels = {"pid": str(found.pid), "uid": str(found.uid)} | ({DAEMON: "yes"} if is_daemon(found.command) else {})
    return Entity(entity_id("process", stable, epoch), "process", stable, epoch, found.command, labels)


def wanted_files(columns: tuple[int, ...]) -> frozenset[int]:
    """The files (indices into FILES) that the columns need; ``stat`` always, ``schedstat`` before ``status``."""
    files = {file for file, given in enumerate(COLUMNS) if file == 0 or set(given).intersection(columns)}
    if _STATUS in files:
        files.add(_SCHEDSTAT)
    return frozenset(files)


class Watched:
    """Keeps the files of the processes found by discovery open, and reads them all; ``by_threads``: see ``Units``."""

    def __init__(
        self, facts: HostFacts, discovery: Discovery, columns: tuple[int, ...], by_threads: bool = False
    ) -> None:
        self._found: dict[int, Found] = {}
        self._facts = facts
        self._discovery = discovery
        self._wanted = wanted_files(columns)
        self._delays = facts.delay_accounting
        task_stats = connect() if _STATUS in self._wanted and facts.proc == "/proc" else None
        self._units = Units(facts.hertz, facts.page_size, task_stats, by_threads)
        self._kept = self._wanted - {_STATUS} if task_stats else self._wanted
        self._budget = max(0, int(os.sysconf("SC_OPEN_MAX")) - _RESERVED) // (len(FILES) + _PIDFDS)
        self._table = process_table.create(facts.proc)

    def __len__(self) -> int:
        return len(self._found)

    def differ(self, found: dict[int, Found]) -> bool:
        """Whether these differ from the watched ones."""
        return self._found != found

    def follow(self, found: dict[int, Found]) -> bool:
        """Watch exactly these processes; returns whether anything has changed."""
        if self._delays != self._facts.delay_accounting:
            self._delays = self._facts.delay_accounting
            self._drop(list(self._found))
        gone = [pid for pid, old in self._found.items() if pid not in found or found[pid].start != old.start]
        self._drop(gone)
        come = [each for pid, each in found.items() if pid not in self._found]
        for each in come:
            self._add(each)
        renamed = [pid for pid, old in self._found.items() if found[pid] != old]
        for pid in renamed:
            self._found[pid] = found[pid]
        return bool(gone or come or renamed)

    def _add(self, found: Found) -> None:
        kept = self._kept if len(self._found) < self._budget else frozenset[int]()
        try:
            self._table.add(found.pid, found.start, self._wanted, self._delays, kept)
            self._found[found.pid] = found
        except OSError:
            self._discovery.forget(found.pid)

    def _drop(self, pids: list[int]) -> None:
        self._table.drop(pids)
        for pid in pids:
            del self._found[pid]

    def read(self, seconds: float) -> bool:
        """Read all; True if some were gone, which are no longer watched."""
        units = self._units
        units.begin(seconds, self._facts.memory_bytes)
        gone = self._table.read(units)
        for pid in gone:
            del self._found[pid]
            self._discovery.forget(pid)
        return bool(gone)

    def found(self) -> list[Found]:
        """Watched processes, in the order of ``rows``."""
        return [self._found[pid] for pid in self._table.pids()]

    def rows(self) -> tuple[array[float], bytearray]:
        """Figures of the newest ``read`` and their codes, WIDTH of each process."""
        values, codes = self._table.rows()
        if self._facts.cores and any(cores > self._facts.cores for cores in values[ALL_CPU::WIDTH]):
            self._facts.refresh()  # CPUs may have been added
        return values, codes

    def states(self) -> bytes:
        """Letter of the state of each at the newest ``read``, 0 if unknown."""
        return self._table.states()

    def account(self) -> dict[str, object]:
        """Number of watched processes, of those without open files, and whether taskstats is used."""
        return {
            "watched": len(self._found),
            "reopened": max(0, len(self._found) - self._budget),
            "taskstats": self._units.task_stats is not None,
        }

    def close(self) -> None:
        """Close all files."""
        self._drop(list(self._found))
        if self._units.task_stats is not None:
            self._units.task_stats.close()


class ProcessSource(Polled):
    """All selected processes; vanished ones drop out of the reading in which they are missing."""

    name = "procfs"

    def __init__(self, resource_set: ResourceSet, facts: HostFacts, discovery: Discovery) -> None:
        names = [metric.name for metric in PROCESSES.metrics]
        columns = tuple(names.index(metric.name) for metric in resource_set.metrics)
        self._set = resource_set
        self._facts = facts
        self._discovery = discovery
        self._columns = None if columns == tuple(range(WIDTH)) else columns
        self._watched = Watched(facts, discovery, columns, by_threads=True)
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
        values, codes = self._watched.rows()
        if self._columns is not None:
            values, codes = chosen(values, codes, self._columns)
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


def chosen(values: array[float], codes: bytearray, columns: tuple[int, ...]) -> tuple[array[float], bytearray]:
    """Only these columns of rows with all WIDTH columns."""
    few = array("d", bytes(len(values) // WIDTH * len(columns) * values.itemsize))
    marks = bytearray(len(few))
    for place, column in enumerate(columns):
        few[place :: len(columns)] = values[column::WIDTH]
        marks[place :: len(columns)] = codes[column::WIDTH]
    return few, marks
