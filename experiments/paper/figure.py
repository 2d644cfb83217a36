"""Figure: measured points, drawing, and comparison with the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from experiments.processes.needs import Need

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

BASELINE, SHARDPULSE = "baseline", "shardpulse"
SYSTEMS = (BASELINE, SHARDPULSE)


class Extent(NamedTuple):
    """Extent of the measurement: seconds of each point's window; with ``quick`` only a few points are measured."""

    seconds: float
    quick: bool

    def some(self, full: Sequence[int], quick: Sequence[int]) -> Sequence[int]:
        """The measured values of a parameter."""
        return quick if self.quick else full


class Row(NamedTuple):
    """One measured value. ``role`` is its part (probe, database, ...); ``unit`` states the
    denominator of a ratio; ``at`` is in seconds from the beginning of the window, or its end for a whole window."""

    system: str
    role: str
    quantity: str
    unit: str
    at: float
    value: float


class Record(NamedTuple):
    """A row with its point and the parameters of that point (h, p, m, t, shards, ...)."""

    point: str
    parameters: Mapping[str, float]
    row: Row


@dataclass(frozen=True)
class Point:
    """One measurement. Its name contains everything that determines it: points of several figures with the same name
    are measured once. ``measure`` gets a fresh directory; it raises ShardpulseError if measuring is impossible.

    ``overhead`` is its time in seconds outside its window, for the estimate of the time left;
    ``windows`` is the number of windows.
    """

    name: str
    parameters: Mapping[str, float]
    measure: Callable[[Extent, Path], Sequence[Row]]
    overhead: float = 8.0
    windows: float = 1.0

    def estimate(self, extent: Extent) -> float:
        """Duration in seconds."""
        return self.overhead + self.windows * extent.seconds


class Finding(NamedTuple):
    """One value of the paper beside those measured here, all as text.

    ``reproduced`` is whether the claim holds for the baseline on this machine, None if it was not tested; ``why`` is
    the reason if not. ``goal`` is the goal of shardpulse, ``met`` whether it is reached; None without a goal.
    """

    what: str
    paper: str
    baseline: str
    shardpulse: str
    reproduced: bool | None = None
    why: str = ""
    goal: str = ""
    met: bool | None = None


@dataclass(frozen=True)
class Records:
    """Records measured for a figure, in the order of its points."""

    all: Sequence[Record] = field(default_factory=tuple)

    def of(self, system: str = "", role: str = "", quantity: str = "", **parameters: float) -> Records:
        """Those of a system, role and quantity ("": any) at points with these parameters."""
        return Records([record for record in self.all if _matches(record, (system, role, quantity), parameters)])

    def over(self, parameter: str) -> dict[float, list[float]]:
        """Values by a parameter of their point, in rising order; points without it are left out."""
        found: dict[float, list[float]] = {}
        for record in self.all:
            if parameter in record.parameters:
                found.setdefault(record.parameters[parameter], []).append(record.row.value)
        return dict(sorted(found.items()))

    @property
    def series(self) -> tuple[list[float], list[float]]:
        """Times and values."""
        return [record.row.at for record in self.all], self.values

    @property
    def values(self) -> list[float]:
        """The values."""
        return [record.row.value for record in self.all]


def _matches(record: Record, wanted: tuple[str, str, str], parameters: Mapping[str, float]) -> bool:
    return all(not want or want == have for want, have in zip(wanted, record.row[:3], strict=True)) and all(
        record.parameters.get(name) == value for name, value in parameters.items()
    )


@dataclass(frozen=True)
class Figure:
    """One figure of the series.

    ``section`` is that of the paper, "" for questions left open by the paper. ``draw`` draws into an empty plot.
    ``says`` returns two sentences: where paper, baseline and shardpulse differ, and why. All of them get the records of
    the figure's points, some of which may be missing (a failed point).
    """

    name: str
    title: str
    section: str
    points: Callable[[Extent], Sequence[Point]]
    draw: Callable[[Plot, Records], None]
    findings: Callable[[Records], Sequence[Finding]]
    says: Callable[[Records], tuple[str, str]]
    needs: tuple[Need, ...] = ()
    size: tuple[float, float] = (10.0, 6.0)  #: inches
