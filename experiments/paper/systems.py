"""System under test, and one measured window of it, for all figures."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from acquisition.errors import UnavailableError
from acquisition.shards.servers.machine import start_time
from experiments.paper.figure import BASELINE, SHARDPULSE, Extent, Finding, Point, Records, Row
from experiments.paper.sampler import pss, watch

PROBE, DATABASE, FILTER = "probe", "database", "filter"
#: Quantities in addition to the sampler's: samples stored per second, their share of the samples offered by the probes,
#: and the share of N(h, p, m, t) offered, for probes that count.
SAMPLES, KEPT_UP, OFFERED = "samples", "kept_up", "offered"
ENOUGH = 0.98  #: of either share: below it a window is not valid for its load
NO_ROOM = "no_room"  #: instead of all others: the memory needed by the load and lacking on this machine
_START = 5.0  #: seconds for few parts
_WARM_UP = 5.0  #: seconds
_MANY = 500  #: connections from which the network is read more rarely
_NETWORK_EVERY = 5


class Load(NamedTuple):
    """``hosts`` monitored hosts with ``sets`` resource sets each, with ``metrics`` indexes sampled every ``interval``
    seconds: h, p, m and t of the paper."""

    hosts: int = 1
    sets: int = 1
    metrics: int = 15
    interval: float = 1.0

    @property
    def rate(self) -> float:
        """N(h, p, m, t): samples per second."""
        return self.hosts * self.sets * self.metrics / self.interval

    @property
    def parameters(self) -> dict[str, float]:
        """As columns of the raw data."""
        return {"h": self.hosts, "p": self.sets, "m": self.metrics, "t": self.interval}


class System(NamedTuple):
    """A running system: the roots of the process trees of each role, the number of samples stored by its database, the
    logs of its parts, if not stderr, and the number of samples made by emulated hosts."""

    name: str
    roles: Mapping[str, Sequence[int]]
    stored: Callable[[], float]
    log: Path | None = None
    made: Callable[[], float] | None = None


class NoRoom(UnavailableError):
    """This machine has too little memory for a load: a result, not a failure."""

    def __init__(self, needed: float) -> None:
        super().__init__(f"too little memory: {needed / 1e9:.1f} GB are needed")
        self.needed = needed


def require_memory(needed: float) -> None:
    """Raises NoRoom unless ``needed`` bytes are available."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    if needed > 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")):
        raise NoRoom(needed)


def until(done: Callable[[], bool], seconds: float, otherwise: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for a condition. Raises UnavailableError, with the end of the server's log, if the server ends before, or
    the wait takes too long."""
    deadline = time.monotonic() + seconds
    while not done():
        if server.poll() is not None or time.monotonic() > deadline:
            raise UnavailableError(f"{otherwise}: {_end_of(log)}")
        time.sleep(0.2)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-500:].strip() if log.exists() else "there is no log"


#: Starts a system under a load in a directory, and stops it at the end of the block.
Start = Callable[[Load, Path], AbstractContextManager[System]]


def point(name: str, start: Start, load: Load, overhead: float = 0.0) -> Point:
    """One window of a system under a load; ``name`` is that of the system, and after a hyphen its load. ``overhead``:
    extra seconds for its parts to start and to end."""

    def measure(extent: Extent, directory: Path) -> list[Row]:
        try:
            with start(load, directory) as system:
                time.sleep(_WARM_UP)
                return window(system, load, extent.seconds)
        except NoRoom as error:
            return [Row(name.partition("-")[0], PROBE, NO_ROOM, "bytes needed", 0.0, error.needed)]

    words = f"{name}-h{load.hosts}-p{load.sets}-m{load.metrics}"
    return Point(words, load.parameters, measure, _START + _WARM_UP + overhead)


def window(system: System, load: Load, seconds: float) -> list[Row]:
    """Resources of every role, samples per second, and their share of the load. Raises UnavailableError if a process
    has ended."""
    every = min(_NETWORK_EVERY, round(seconds)) if load.hosts > _MANY else 1
    counts = [system.stored, *([system.made] if system.made else [])]
    before, began = [count() for count in counts], time.monotonic()
    rows = watch(system.name, system.roles, seconds, every)
    after, lasted = [count() for count in counts], time.monotonic() - began
    stored, *made = [late - early for late, early in zip(after, before, strict=True)]
    for role, pids in system.roles.items():
        if ended := [pid for pid in pids if start_time(pid) is None]:
            gone = f"{len(ended)} of {len(pids)} processes of the {role} ended during the window"
            raise UnavailableError(f"{gone}: {_end_of(system.log)}" if system.log else gone)
    due = load.rate * load.interval * max(1.0, lasted // load.interval)  # by whole ticks
    offered = made[0] if made else due
    at = round(lasted, 3)
    return [
        *rows,
        *pss(system.name, system.roles, at),
        Row(system.name, DATABASE, SAMPLES, "samples/s", at, round(stored / lasted, 3)),
        Row(system.name, DATABASE, KEPT_UP, "ratio of samples offered", at, round(stored / max(1.0, offered), 4)),
        *(Row(system.name, PROBE, OFFERED, "ratio of N(h, p, m, t)", at, round(each / due, 4)) for each in made),
    ]


def compare(
    what: str,
    paper: str,
    here: Mapping[str, float | str | None],
    reproduced: bool | None = None,
    why: str = "",
    goal: str = "",
    met: bool | None = None,
) -> Finding:
    """A finding from the measurements of each system."""
    return Finding(what, paper, shown(here[BASELINE]), shown(here[SHARDPULSE]), reproduced, why, goal, met)


def full(records: Records, system: str) -> set[float]:
    """Numbers of hosts with all samples offered by the probes, as far as they count them."""
    short = records.of(system, PROBE, OFFERED).over("h")
    return {h for h in records.of(system, DATABASE, KEPT_UP).over("h") if min(short.get(h, [1.0])) >= ENOUGH}


def median(records: Records) -> float | None:
    """The median of the values; None without any."""
    return statistics.median(records.values) if records.values else None


def shown(value: float | str | None) -> str:
    """A value as shown in a table."""
    if isinstance(value, str):
        return value
    return "not measured" if value is None else f"{value:.2g}" if abs(value) < 10 else f"{value:,.0f}"
