"""Figures 4 and 5: a probe with 1 to 15 performance indexes, and its database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from experiments.paper import baseline, drawing, product, sampler
from experiments.paper.figure import BASELINE, SHARDPULSE, SYSTEMS, Extent, Figure, Finding, Point, Records
from experiments.paper.systems import DATABASE, PROBE, Load, compare, point, shown

_METRICS, _QUICK = (1, 3, 5, 7, 9, 11, 13, 15), (1, 15)
_CHEAP = 1.5  #: times the cost of one index: as cheap as in the paper


def _points(extent: Extent) -> Sequence[Point]:
    loads = [Load(metrics=count) for count in extent.some(_METRICS, _QUICK)]
    return [
        *(point(BASELINE, baseline.running, load) for load in loads),
        *(point(f"{SHARDPULSE}-real", product.real, load) for load in loads),
    ]


def growth(records: Records, system: str, role: str, resource: str) -> float | None:
    """The median with the most indexes to that with one; None if one was not measured."""
    medians = [median(values) for values in records.of(system, role, resource).over("m").values()]
    return medians[-1] / medians[0] if len(medians) > 1 and medians[0] else None


def _findings(role: str) -> Callable[[Records], Sequence[Finding]]:
    def findings(records: Records) -> Sequence[Finding]:
        found = []
        for resource in sampler.UNITS:
            ratios = {system: growth(records, system, role, resource) for system in SYSTEMS}
            of_baseline = ratios[BASELINE]
            found.append(
                compare(
                    f"{resource} of a {role} with 15 indexes to that with 1",
                    "about 1 (virtually no cost)", ratios,
                    None if of_baseline is None else of_baseline < _CHEAP,
                    "the parts that do not depend on the number of indexes are so cheap on this machine that the "
                    "growing INSERT shows beside them",
                )
            )  # fmt: skip
        return found

    return findings


def _says(role: str) -> Callable[[Records], tuple[str, str]]:
    def says(records: Records) -> tuple[str, str]:
        ratios = [shown(growth(records, system, role, "cpu")) for system in SYSTEMS]
        return (
            f"With 15 indexes instead of one the CPU of the {role} is {ratios[0]} times as high in the baseline and "
            f"{ratios[1]} times in shardpulse; the paper found virtually no difference.",
            "One line of vmstat is read and one command is sent in any case: the baseline adds text to an INSERT, "
            "shardpulse four bytes per index to a frame.",
        )

    return says


def _figure(number: int, role: str) -> Figure:
    title = f"Figure {number}: resource consumption of a {role} with an increasing number of indexes (p = 1, h = 1)"
    draw = partial(drawing.boxes, role=role, parameter="m", label="performance indexes m")
    needs = (*baseline.NEEDS, sampler.NEEDS)
    return Figure(f"fig{number}", title, "3.3", _points, draw, _findings(role), _says(role), needs)


PROBE_OVER_INDEXES, DATABASE_OVER_INDEXES = _figure(4, PROBE), _figure(5, DATABASE)
