"""A system under test, and one measured window of it: what all figures of the paper have in common."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from acquisition.errors import UnavailableError
from acquisition.shards.machine import start_time
from experiments.paper.figure import Extent, Point, Records, Row
from experiments.paper.sampler import watch

PROBE, DATABASE, FILTER = "probe", "database", "filter"
#: Quantities beside those of the sampler: samples stored per second, and their share of N(h, p, m, t).
SAMPLES, KEPT_UP = "samples", "kept_up"
_WARM_UP = 5.0  #: seconds
_MANY = 500  #: connections, from which on the network is read more rarely
_NETWORK_EVERY = 5


class Load(NamedTuple):
    """``hosts`` monitored hosts with ``sets`` resource sets each, of which ``metrics`` indexes are sampled every
    ``interval`` seconds: h, p, m and t of the paper."""

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
    """A running system: the roots of the process trees of each role, and how many samples its database has stored."""

    name: str
    roles: Mapping[str, Sequence[int]]
    stored: Callable[[], float]


#: Starts a system under a load in a directory, and stops it at the end of the block.
Start = Callable[[Load, Path], AbstractContextManager[System]]


def point(name: str, start: Start, load: Load, overhead: float = 8.0) -> Point:
    """One window of a system under a load; ``name`` is that of the system and of the way in which it is loaded."""

    def measure(extent: Extent, directory: Path) -> list[Row]:
        with start(load, directory) as system:
            time.sleep(_WARM_UP)
            return window(system, load, extent.seconds)

    words = f"{name}-h{load.hosts}-p{load.sets}-m{load.metrics}"
    return Point(words, load.parameters, measure, overhead + _WARM_UP)


def window(system: System, load: Load, seconds: float) -> list[Row]:
    """Resources of every role, samples per second, and their share of what the load offers. Raises UnavailableError
    when a process has ended."""
    before, began = system.stored(), time.monotonic()
    many = load.hosts * load.sets > _MANY
    rows = watch(system.name, system.roles, seconds, _NETWORK_EVERY if many else 1)
    rate = (system.stored() - before) / (time.monotonic() - began)
    for role, pids in system.roles.items():
        if ended := [pid for pid in pids if start_time(pid) is None]:
            raise UnavailableError(f"{len(ended)} of {len(pids)} processes of the {role} ended during the window")
    at = round(seconds, 3)
    return [
        *rows,
        Row(system.name, DATABASE, SAMPLES, "samples/s", at, round(rate, 3)),
        Row(system.name, DATABASE, KEPT_UP, "ratio of samples offered", at, round(rate / load.rate, 4)),
    ]


def median(records: Records) -> float | None:
    """The median of the values; None without any."""
    return statistics.median(records.values) if records.values else None


def shown(value: float | None) -> str:
    """A value of a table."""
    return "not measured" if value is None else f"{value:.2g}" if abs(value) < 10 else f"{value:,.0f}"
