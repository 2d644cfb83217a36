"""Processes from pidstat, run as a child.

pidstat is told the pids (``-p``): with ``-p ALL`` it reads every process of the machine, and
``-C`` reads every name as well (docs/measured.md). When discovery finds new ones, a second
pidstat is started beside the first and takes over with its first tick, so that no tick is lost.
Nothing in the output tells that a tick is complete, and pidstat writes every column with
a system call of its own, so a tick is read a moment after it began and is complete when
all its rows are there or nothing more comes.
"""

from __future__ import annotations

from collections.abc import Collection

from acquisition.model.codes import MISSING
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.checks.timeout import timed_out
from probes.discovery import Discovery, Found
from probes.host_facts import HostFacts
from probes.rates import NAN
from probes.reading import Reading
from probes.sources import Request
from probes.sources.pidstat import PidstatParser, ProcessTick
from probes.sources.procfs_processes import process_entity
from probes.sources.tool_child import PATIENCE, ToolChild, find_tool

#: How long to wait for more of a tick before reading on.
_MOMENT = 0.02
#: After so many such moments without another row an incomplete tick is taken as it is: a process has ended.
_QUIET = 5
_NEVER = float("inf")
_DELAY = "io_delay_ticks"
_REPORTS = ["-h", "-u", "-r", "-d", "-w"]


def create(request: Request) -> PidstatSource | None:
    """See ``probes.sources``; None, with a report, when pidstat cannot do it."""
    path = find_tool("pidstat")
    if path is None:
        request.report("pidstat is not installed (Debian: sysstat): processes are read from /proc instead")
        return None
    if request.interval < 1 or request.interval != int(request.interval):
        request.report(f"pidstat cannot sample every {request.interval:g} s: processes are read from /proc instead")
        return None
    return PidstatSource(request, path)


class Run:
    """One pidstat over a fixed set of processes, and the tick that it is printing."""

    def __init__(self, child: ToolChild, resource_set: ResourceSet, found: dict[int, Found]) -> None:
        self.child = child
        self.found = found
        self.read_at = _NEVER  # when to read on; never: when something comes
        self._set = resource_set
        self._parser = PidstatParser(resource_set)
        self._flushed = 0
        self._quiet = 0

    def start(self, monotonic: float) -> None:
        """Start the tool if that is due."""
        if self.child.start(monotonic):
            self._parser = PidstatParser(self._set)
            self._flushed = self._quiet = 0
            self.read_at = _NEVER

    def begin(self, monotonic: float) -> None:
        """A tick begins to arrive: it is read a moment later."""
        self.read_at = monotonic + _MOMENT

    def read(self, monotonic: float) -> ProcessTick | None:
        """Take in what has come; the tick when it is complete."""
        parser = self._parser
        before = parser.parsed
        tick = None
        for line in self.child.lines(monotonic):
            tick = parser.feed(line) or tick
        self._quiet = self._quiet + 1 if parser.parsed == before else 0
        self.read_at = monotonic + _MOMENT
        if tick is None and (
            parser.parsed - self._flushed >= len(self.found) or self._quiet >= _QUIET or not self.child.pid
        ):
            tick = parser.flush()
            self._flushed = parser.parsed
            self.read_at = _NEVER
        return tick

    @property
    def rejected(self) -> int:
        """Lines that could not be understood."""
        return self._parser.rejected.count


class PidstatSource:
    """Keeps one pidstat running over the processes that discovery found, and a second one during a handover."""

    name = "pidstat"
    free_running = True

    def __init__(self, request: Request, path: str) -> None:
        self._set = request.resource_set
        self._facts: HostFacts = request.facts
        self._discovery: Discovery = request.discovery
        self._path = path
        self._seconds = int(request.interval)
        self._report = request.report
        self._delay = next((i for i, metric in enumerate(self._set.metrics) if metric.name == _DELAY), -1)
        self._run: Run | None = None
        self._next: Run | None = None
        self._generation = -1
        self._entities: list[Entity] = []
        self._order: list[tuple[int, int]] = []
        self._last = 0.0
        self._silent = 0
        self._starts = 0
        self._cpu_seconds = 0.0

    def sample(self, wall: float, monotonic: float) -> Reading | None:
        """See ``Source``."""
        del wall, monotonic
        return None

    def filenos(self) -> list[int]:
        """See ``Source``; while a tick is arriving its rows are left to gather."""
        return [run.child.fileno() for run in self._runs() if run.child.pid and run.read_at == _NEVER]

    def wake_at(self) -> float:
        """See ``Source``."""
        due = [min(run.read_at, run.child.wake_at()) for run in self._runs()]
        return min(due, default=self._discovery.due)

    def service(self, wall: float, monotonic: float, ready: Collection[int]) -> Reading | None:
        """See ``Source``."""
        reading = None
        for run in self._runs():
            if not run.child.pid:
                run.start(monotonic)
            elif run.child.fileno() in ready:
                run.begin(monotonic)
            elif run.read_at <= monotonic:
                tick = run.read(monotonic)
                if tick is not None:
                    reading = self._take(run, tick, wall, monotonic) or reading
        self._follow(monotonic)
        return reading

    def _runs(self) -> list[Run]:
        return [run for run in (self._run, self._next) if run is not None]

    def _follow(self, monotonic: float) -> None:
        """Have every process watched that discovery wants."""
        generation = self._discovery.refresh(monotonic)
        if generation == self._generation or self._next is not None:
            return
        self._generation = generation
        wanted = dict(self._discovery.processes)
        run = self._run
        if run is None:
            self._run = self._started(wanted, monotonic) if wanted else None
        elif not wanted:
            self._stop(run)
            self._run = None
        elif not run.child.pid:
            run.found = wanted
            run.child.replace(self._command(wanted))
        elif all(pid in run.found and run.found[pid].start == found.start for pid, found in wanted.items()):
            run.found = wanted
        else:
            self._next = self._started(wanted, monotonic)

    def _started(self, wanted: dict[int, Found], monotonic: float) -> Run:
        run = Run(ToolChild(self._command(wanted), self._report), self._set, wanted)
        run.start(monotonic)
        self._starts += 1
        return run

    def _command(self, wanted: dict[int, Found]) -> list[str]:
        return [self._path, *_REPORTS, "-p", ",".join(map(str, wanted)), str(self._seconds)]

    def _stop(self, run: Run) -> None:
        run.child.close()
        self._cpu_seconds += run.child.cpu_seconds

    def _take(self, run: Run, tick: ProcessTick, wall: float, monotonic: float) -> Reading | None:
        """The reading of a complete tick; None when the other pidstat has just given one."""
        run.child.works()
        self._silent = 0
        for pid in [pid for pid in run.found if pid not in tick.rows]:
            del run.found[pid]
            self._discovery.forget(pid)
        if run is self._next:
            if self._run is not None:
                self._stop(self._run)
            self._run, self._next = run, None
        if monotonic - self._last < self._seconds / 2:
            return None
        seconds = monotonic - self._last if self._last else 0.0
        self._last = monotonic
        return self._reading(run, tick, wall, monotonic, seconds)

    def _reading(self, run: Run, tick: ProcessTick, wall: float, monotonic: float, seconds: float) -> Reading:
        values: list[float] = []
        codes = bytearray()
        for pid in run.found:
            row = tick.rows[pid]
            if self._delay >= 0 and not self._facts.delay_accounting:
                row.values[self._delay], row.codes[self._delay] = NAN, MISSING
            values += row.values
            codes += row.codes
        order = [(pid, found.start) for pid, found in run.found.items()]
        if order != self._order:
            self._order = order
            self._entities = [process_entity(self._facts, found) for found in run.found.values()]
        facts = self._facts
        return Reading(
            self._set, self._entities, values, codes, wall, monotonic, seconds, facts.cores, facts.memory_bytes
        )

    def timed_out(self, wall: float, monotonic: float) -> Reading:
        """See ``Source``; a tool that has been silent for too long is killed."""
        self._silent += 1
        if self._silent >= PATIENCE:
            self._silent = 0
            for run in self._runs():
                if run.child.pid:
                    run.child.restart(monotonic, "does not answer")
        self._follow(monotonic)
        return timed_out(self._set, self._entities if self._run else [], wall, monotonic)

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        runs = self._runs()
        return {
            "pids": [run.child.pid for run in runs if run.child.pid],
            "starts": self._starts + sum(run.child.starts - 1 for run in runs if run.child.starts),
            "problem": next((run.child.problem for run in runs if run.child.problem), ""),
            "ended_cpu_seconds": self._cpu_seconds + sum(run.child.cpu_seconds for run in runs),
            "rejected_lines": sum(run.rejected for run in runs),
            "watched": len(self._entities),
            "left_out": self._discovery.left_out,
        }

    def close(self) -> None:
        """See ``Source``."""
        for run in self._runs():
            self._stop(run)
        self._run = self._next = None
