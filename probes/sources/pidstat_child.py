"""Processes from pidstat, run as a child.

pidstat is passed the pids (``-p``): with ``-p ALL`` it reads every process of the machine, and
``-C`` reads every name as well (docs/decisions/0011). When discovery finds new ones, a second
pidstat is started beside the first and takes over with its first tick, so that no tick is lost.
A process is watched until it has ended according to /proc: if its row does not arrive in
time it is TIMEOUT in that tick, and a row that cannot be read is UNREADABLE. If its rows stay away,
pidstat is restarted, less and less often.

Nothing in the output marks a tick as complete, and pidstat writes every column with
a separate system call, so a tick is read a moment after it began. It is complete when
every process has its row, or, a while after the last row, when those without one have
ended. A tick without progress is used as it is: its later rows are dropped, up to
the header of the next one.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection

from acquisition.model.codes import MISSING, NAN, TIMEOUT, UNREADABLE
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.checks.timeout import timed_out
from probes.processes.discovery import Discovery, still_there
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sources import Request
from probes.sources.procfs_processes import process_entity
from probes.tools.pidstat import PidstatParser, ProcessTick
from probes.tools.tool_child import ToolChild, find_tool
from probes.vms.guest_process import Found

#: Time to wait for more of a tick before reading on.
_MOMENT = 0.02
#: After this time without another row, /proc is checked for the end of the missing processes.
_QUIET = 0.1
#: Time to wait for rows of living processes: part of the interval, and maximum in seconds.
_PART, _LONGEST = 0.25, 1.0
NEVER = float("inf")


class Run:
    """One pidstat over a fixed set of processes: ``found`` are those that must have a row; ``began`` is when the
    newest tick began to arrive."""

    def __init__(
        self, child: ToolChild, resource_set: ResourceSet, found: dict[int, Found], proc: str, interval: float
    ) -> None:
        self.child = child
        self.found = found
        self.began = 0.0
        self.read_at = NEVER  # when to read on; never: on the next output
        self._set = resource_set
        self._proc = proc
        self._patience = min(_LONGEST, _PART * interval)
        self._parser = PidstatParser(resource_set)
        self._taken: str | None = None  # the time of the used tick, until the next header
        self._arrived = 0.0
        self._progress = 0.0  # arrival of the last row

    def watch(self, found: dict[int, Found]) -> None:
        """Set the processes that must have a row from now on."""
        self.found = found

    def start(self, monotonic: float) -> None:
        """Start the tool if due."""
        if self.child.start(monotonic):
            self._parser = PidstatParser(self._set)
            self._taken = None
            self.read_at = NEVER

    def begin(self, monotonic: float) -> None:
        """Output begins to arrive: it is read a moment later."""
        self._arrived = self._progress = monotonic
        self.read_at = monotonic + _MOMENT

    def read(self, monotonic: float) -> ProcessTick | None:
        """Process new output; returns the tick when it is complete."""
        before = self._parser.parsed
        tick = self._feed(monotonic)
        if self._parser.parsed != before:
            self._progress = monotonic
        self.read_at = monotonic + _MOMENT
        if tick is None and self._complete(monotonic):
            tick = self._flush()
            self.read_at = NEVER
        return tick

    def _feed(self, monotonic: float) -> ProcessTick | None:
        """The newest tick that was incomplete when the next one began."""
        tick = None
        for line in self.child.lines(monotonic):
            done = self._parser.feed(line)
            if done is not None and done.time != self._taken:
                tick = done
                self.began = self._arrived
            if done is not None or line.startswith(b"#"):
                self._taken = None
                self._arrived = monotonic
        return tick

    def _complete(self, monotonic: float) -> bool:
        parser = self._parser
        if not self.child.pid or parser.time == self._taken:
            return True
        silent = monotonic - self._progress
        if not parser.gathered and not parser.refused:
            return silent >= _QUIET
        missing = [
            found for pid, found in self.found.items() if pid not in parser.gathered and pid not in parser.refused
        ]
        if not missing:
            return True
        if silent < _QUIET:
            return False
        self.read_at = monotonic + _QUIET
        return silent >= self._patience or not any(still_there(self._proc, found) for found in missing)

    def _flush(self) -> ProcessTick | None:
        """The tick in progress, unless it is the rest of a used one."""
        tick = self._parser.flush()
        if tick is None or tick.time == self._taken:
            return None
        self._taken = tick.time
        self.began = self._arrived
        return tick

    @property
    def rejected(self) -> int:
        """Number of lines that could not be understood."""
        return self._parser.rejected.count


#: A row missing in this number of ticks is looked for with a new pidstat, then after twice as many, and so on.
_PATIENCE_WITH_ROWS = 4
#: Limit for one argument (MAX_ARG_STRLEN, include/uapi/linux/binfmts.h): 7 digits and a comma each.
_MOST_PIDS = (1 << 17) // 8
_DELAY = "io_delay_ticks"
_REPORTS = ["-h", "-u", "-r", "-d", "-w"]


def create(request: Request) -> PidstatSource | None:
    """See ``probes.sources``; None, with a report, if pidstat cannot do it."""
    path = find_tool("pidstat")
    if path is None:
        request.report("pidstat is not installed (Debian: sysstat): reading processes from /proc instead")
        return None
    if request.interval < 1 or request.interval != int(request.interval):
        request.report(f"pidstat cannot sample every {request.interval:g} s: reading processes from /proc instead")
        return None
    if request.discovery.limit > _MOST_PIDS:
        request.report(
            f"pidstat accepts at most {_MOST_PIDS} pids, but probe.processes.limit is "
            f"{request.discovery.limit}: reading processes from /proc instead"
        )
        return None
    return PidstatSource(request, path)


class PidstatSource:
    """Keeps one pidstat running over the processes found by discovery, and a second one during a handover."""

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
        self._absent: dict[int, int] = {}  # pid -> ticks in a row without its row
        self._last = 0.0
        self._starts = 0
        self._cpu_seconds = 0.0

    def sample(self, wall: float, monotonic: float) -> Reading | None:
        """See ``Source``."""
        del wall, monotonic
        return None

    def filenos(self) -> list[int]:
        """See ``Source``; while a tick is arriving its rows are left to accumulate."""
        return [run.child.fileno() for run in self._runs() if run.child.pid and run.read_at == NEVER]

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
        """Have every process selected by discovery watched."""
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
            run.watch(wanted)
            run.child.replace(self._command(wanted))
        elif all(pid in run.found and run.found[pid].start == found.start for pid, found in wanted.items()):
            run.watch(wanted)
        else:
            self._next = self._started(wanted, monotonic)

    def _started(self, wanted: dict[int, Found], monotonic: float) -> Run:
        child = ToolChild(self._command(wanted), self._report)
        run = Run(child, self._set, wanted, self._facts.proc, self._seconds)
        run.start(monotonic)
        self._starts += 1
        return run

    def _command(self, wanted: dict[int, Found]) -> list[str]:
        return [self._path, *_REPORTS, "-p", ",".join(map(str, wanted)), str(self._seconds)]

    def _stop(self, run: Run) -> None:
        run.child.close()
        self._cpu_seconds += run.child.cpu_seconds

    def _take(self, run: Run, tick: ProcessTick, wall: float, monotonic: float) -> Reading | None:
        """Reading of a complete tick; None if the other pidstat has just given one."""
        if tick.rows:
            run.child.works()
        self._drop_ended(run, tick)
        if run is self._next:
            if self._run is not None:
                self._stop(self._run)
            self._run, self._next = run, None
        if run.began - self._last < self._seconds / 2:
            return None
        seconds = run.began - self._last if self._last else 0.0
        self._last = run.began
        self._follow_absent(run, tick, monotonic)
        return self._reading(run, tick, wall, monotonic, seconds)

    def _drop_ended(self, run: Run, tick: ProcessTick) -> None:
        for pid in [pid for pid in run.found if pid not in tick.rows]:
            if not still_there(self._facts.proc, run.found[pid]):
                del run.found[pid]
                self._discovery.forget(pid)

    def _follow_absent(self, run: Run, tick: ProcessTick, monotonic: float) -> None:
        """Count the ticks without a row of a living process; restart for one that pidstat has lost."""
        answered = tick.rejected.union(tick.rows)
        self._absent = {pid: self._absent.get(pid, 0) + 1 for pid in run.found if pid not in answered}
        lost = any(n >= _PATIENCE_WITH_ROWS and n & (n - 1) == 0 for n in self._absent.values())
        if lost and self._next is None:
            self._next = self._started(dict(run.found), monotonic)

    def _reading(self, run: Run, tick: ProcessTick, wall: float, monotonic: float, seconds: float) -> Reading:
        values, codes = array("d"), bytearray()
        width = len(self._set.metrics)
        for pid in run.found:
            row = tick.rows.get(pid)
            if row is None:
                values.extend([NAN] * width)
                codes += bytes([UNREADABLE if pid in tick.rejected else TIMEOUT]) * width
                continue
            if self._delay >= 0 and not self._facts.delay_accounting:
                row.values[self._delay], row.codes[self._delay] = NAN, MISSING
            values.extend(row.values)
            codes += row.codes
        self._name_rows(run)
        facts = self._facts
        return Reading(
            self._set, self._entities, values, codes, wall, monotonic, seconds, facts.cores, facts.memory_bytes
        )

    def _name_rows(self, run: Run) -> None:
        order = [(pid, found.start) for pid, found in run.found.items()]
        if order != self._order:
            self._order = order
            self._entities = [process_entity(self._facts, found) for found in run.found.values()]

    def timed_out(self, wall: float, monotonic: float) -> Reading:
        """See ``Source``; a tool that has been silent for too long is killed."""
        for run in self._runs():
            run.child.missed(monotonic)
        self._follow(monotonic)
        if self._run is not None and not self._entities and self._run.child.starts > 1:
            self._name_rows(self._run)  # it has never printed a sample: this does not mean that there are no processes
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
