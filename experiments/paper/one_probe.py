"""Figures 2 and 3: one probe and its database over time.

It has one resource set and one performance index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from experiments.paper import baseline, product, sampler
from experiments.paper.figure import BASELINE, SHARDPULSE, SYSTEMS, Extent, Figure, Finding, Point, Records
from experiments.paper.sets import LIMIT
from experiments.paper.systems import DATABASE, PROBE, Load, compare, median, point, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

_LOAD = Load(metrics=1)
#: The medians of the paper, which gives the same for probe and database.
_PAPER = {"cpu": 0.01, "memory": 0.003, "network": 0.0007}


_WHY = {
    PROBE: "the probe of shardpulse writes each frame into its outbox and asks every two seconds what was applied, "
    "which an INSERT does not; a Python process of today holds several times the memory of one of 2011",
    DATABASE: "the database of shardpulse also serves a filter that waits on 64 partitions and commits in a "
    "transaction every second, which one probe does not make up for; MariaDB of today holds ten times the memory of "
    "the paper's MySQL",
}


def _points(_extent: Extent) -> Sequence[Point]:
    return [point(BASELINE, baseline.running, _LOAD), point(f"{SHARDPULSE}-real", product.real, _LOAD)]


def _draw(role: str) -> Callable[[Plot, Records], None]:
    def draw(plot: Plot, records: Records) -> None:
        for axis, (resource, unit) in zip(plot.subplots(3, 1, sharex=True), sampler.UNITS.items(), strict=True):
            for system in SYSTEMS:
                found = records.of(system, role, resource)
                if found.all:
                    axis.plot(*found.series, linewidth=1.0, label=f"{system}, median {median(found):.2g}")
            axis.axhline(_PAPER[resource], color="grey", linestyle=":", label=f"paper, median {_PAPER[resource]:g}")
            axis.set_ylabel(f"{resource}\n({unit})", fontsize=8)
            axis.legend(fontsize=8)
        axis.set_xlabel("seconds")

    return draw


def _findings(role: str) -> Callable[[Records], Sequence[Finding]]:
    def findings(records: Records) -> Sequence[Finding]:
        found = []
        for resource, paper in _PAPER.items():
            medians = {system: median(records.of(system, role, resource)) for system in SYSTEMS}
            of_baseline = medians[BASELINE]
            found.append(
                compare(
                    f"median {resource} utilization of one {role} ({sampler.UNITS[resource]})",
                    f"{paper:g}", medians, None if of_baseline is None else of_baseline < LIMIT,
                    "one part of a single probe takes more than a tenth of a resource",
                )
            )  # fmt: skip
        return found

    return findings


def _says(role: str) -> Callable[[Records], tuple[str, str]]:
    def says(records: Records) -> tuple[str, str]:
        cpu = [shown(median(records.of(system, role, "cpu"))) for system in (BASELINE, SHARDPULSE)]
        return (
            f"The {role} of one monitor module takes {cpu[0]} of a core in the paper's design and {cpu[1]} in "
            f"shardpulse, where the paper measured {_PAPER['cpu']:g}.",
            f"Cores of today are several times as fast as those of 2011, and clock ticks of 10 ms cannot resolve less "
            f"than 0.01 of a second where this sampler reads nanoseconds; {_WHY[role]}; the paper's network of "
            f"{_PAPER['network']:g} is 87 kB/s, far more than one value a second puts on the wire.",
        )

    return says


def _figure(name: str, role: str, number: int) -> Figure:
    title = f"Figure {number}: resource consumption of a {role} over time (p = 1, m = 1, h = 1)"
    return Figure(
        name, title, "3.3", _points, _draw(role), _findings(role), _says(role), (*baseline.NEEDS, sampler.NEEDS)
    )


PROBE_OVER_TIME = _figure("fig2", PROBE, 2)
DATABASE_OVER_TIME = _figure("fig3", DATABASE, 3)
