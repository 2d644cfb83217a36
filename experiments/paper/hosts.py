"""Figures 6 and 7: one database for many hosts with one resource set each.

They show its capacity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from experiments.paper import baseline, drawing, product, sampler
from experiments.paper.figure import BASELINE, SHARDPULSE, SYSTEMS, Extent, Figure, Finding, Point, Records
from experiments.paper.fits import PARABOLA, Fit, crossing, fit
from experiments.paper.systems import DATABASE, ENOUGH, KEPT_UP, SAMPLES, Load, compare, full, point, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

_BASELINE, _BASELINE_QUICK = (1, 2, 4, 8, 16, 32, 64), (1, 8, 24, 48)
_OURS, _OURS_QUICK = (1, 4, 16, 64, 250, 1000, 2500, 5000), (1, 64, 500, 2000)
_PAPER = {"memory": 253, "cpu": 332, "network": 455}
_N_HOST = 500  #: samples/s of a medium-size data center, hosts only
_GOAL = 5000


def _points(extent: Extent) -> Sequence[Point]:
    return [
        *(
            point(BASELINE, baseline.running, Load(count), count / 8)
            for count in extent.some(_BASELINE, _BASELINE_QUICK)
        ),
        *(
            point(f"{SHARDPULSE}-emulated", product.emulated, Load(count), count / 200)
            for count in extent.some(_OURS, _OURS_QUICK)
        ),
    ]


def medians(records: Records, system: str, resource: str) -> dict[float, float]:
    """Medians of the database by number of hosts."""
    return {hosts: median(values) for hosts, values in records.of(system, DATABASE, resource).over("h").items()}


def kept_up(records: Records, system: str) -> float | None:
    """The largest number of hosts that offered all samples, all stored by the database, with no resource exhausted;
    None if none was measured."""
    stored, offered = medians(records, system, KEPT_UP), full(records, system)
    used = [medians(records, system, resource) for resource in sampler.UNITS]
    good = [
        hosts
        for hosts, share in stored.items()
        if share >= ENOUGH and hosts in offered and all(each.get(hosts, 0) < 1 for each in used)
    ]
    return max(good, default=0.0) if stored else None


def parabolas(records: Records, system: str) -> dict[str, Fit]:
    """The parabola of each resource of the database with at least four points, so that residuals remain."""
    measured = {resource: medians(records, system, resource) for resource in sampler.UNITS}
    return {
        resource: fit(PARABOLA, list(values), list(values.values()))
        for resource, values in measured.items()
        if len(values) > PARABOLA.parameters
    }


def _exhausted(fitted: Fit | None) -> str:
    if fitted is None:
        return "not measured"
    middle, low, high = ("none" if value is None else f"{value:,.0f}" for value in crossing(fitted, 1.0))
    return f"{middle} (95%: {low} to {high}; none: not up to 10^7)"


def _draw_fits(plot: Plot, records: Records) -> None:
    panels = plot.subplots(len(sampler.UNITS), len(SYSTEMS), squeeze=False)
    for system, column in zip(SYSTEMS, panels.T, strict=True):
        fitted = parabolas(records, system)
        for axis, resource in zip(column, sampler.UNITS, strict=True):
            measured = medians(records, system, resource)
            axis.plot(list(measured), list(measured.values()), "o", color=drawing.COLOURS[system], markersize=4)
            if resource in fitted:
                curve = fitted[resource]
                end = min(crossing(curve, 1.0).size or math.inf, 4 * max(measured))
                at = np.linspace(0, 1.1 * end, 200)
                axis.plot(at, curve.at(at), color="black", linewidth=1, label=f"hosts at 1: {_exhausted(curve)}")
                axis.fill_between(at, *curve.band(at), color="black", alpha=0.15)
                axis.legend(fontsize=7, loc="upper left")
                inset = axis.inset_axes((0.72, 0.12, 0.26, 0.4))
                inset.stem(list(measured), curve.residuals, basefmt="grey", markerfmt=".")
                inset.set_title("residuals", fontsize=6, pad=2)
                inset.tick_params(labelsize=5)
            axis.axhline(1.0, color="red", linestyle=":")
            axis.set_ylim(0, 1.2)
            axis.set_ylabel(resource)
        column[0].set_title(system, fontsize=10)
        column[-1].set_xlabel("hosts")


def _measured(records: Records) -> Sequence[Finding]:
    hosts = {system: kept_up(records, system) for system in SYSTEMS}
    rates = {system: max(records.of(system, DATABASE, SAMPLES).values, default=None) for system in SYSTEMS}
    held, of_baseline, ours = hosts[BASELINE], rates[BASELINE], hosts[SHARDPULSE]
    return [
        compare(
            "hosts of one database, measured, with every sample stored and no resource exhausted (p = 1, m = 15)",
            "64", hosts,
            None if held is None else held >= max(_BASELINE_QUICK),
            "the database did not store all samples, or exhausted a resource, at the largest number of hosts",
            f"at least {_GOAL:,} measured; a fit is shown and never counted",
            None if ours is None else ours >= _GOAL,
        ),
        compare(
            f"samples/s of one database, measured, against N_host = {_N_HOST}", "960", rates,
            None if of_baseline is None else of_baseline > _N_HOST,
            f"fewer than {_N_HOST} samples/s were stored",
        ),
    ]  # fmt: skip


def _fitted(records: Records) -> Sequence[Finding]:
    of = {system: parabolas(records, system) for system in SYSTEMS}
    found = []
    for resource, hosts in _PAPER.items():
        texts = {system: _exhausted(of[system].get(resource)) for system in SYSTEMS}
        errors = {system: _residual(of[system].get(resource)) for system in SYSTEMS}
        found += [
            compare(f"hosts at which {resource} of the database is exhausted (parabola; {sampler.UNITS[resource]})",
                    f"{hosts} hosts, {15 * hosts:,} samples/s", texts),
            compare(f"residual of the parabola of {resource} (root mean square)", "not given", errors),
        ]  # fmt: skip
    order = {system: bottlenecks(of[system]) for system in SYSTEMS}
    named = {
        system: (", ".join(each) or "none up to 10^7 hosts") if of[system] else None for system, each in order.items()
    }
    same = order[BASELINE] == list(_PAPER)
    return [
        *found,
        compare(
            "order of the bottlenecks of a database", ", ".join(_PAPER), named,
            same if order[BASELINE] else None,
            "the order is that of the ratios of this machine: a core is several times as fast as one of 2011, an "
            "INSERT of 15 values is some 200 bytes on the wire, and the memory of each connection and of the stored "
            "rows depends on server version and length of the run",
        ),
    ]  # fmt: skip


def bottlenecks(fitted: dict[str, Fit]) -> list[str]:
    """Resources in the order in which their parabolas are exhausted; resources never exhausted are left out."""
    at = {resource: size for resource, each in fitted.items() if (size := crossing(each, 1.0).size) is not None}
    return sorted(at, key=at.__getitem__)


def _residual(fitted: Fit | None) -> str:
    return "not measured" if fitted is None else f"{math.sqrt(float(np.mean(fitted.residuals**2))):.1e}"


def _says_measured(records: Records) -> tuple[str, str]:
    hosts = [shown(kept_up(records, system)) for system in SYSTEMS]
    return (
        f"The paper had 64 hosts; one database took {hosts[0]} hosts of the baseline and {hosts[1]} of shardpulse "
        "here, as many as were tried while every sample was stored.",
        "The baseline pays a server thread, a round trip and a parsed statement for each probe and second, shardpulse "
        "the append of one frame to a stream; hosts of shardpulse are emulated through its own writer.",
    )


def _says_fitted(records: Records) -> tuple[str, str]:
    order = [bottlenecks(parabolas(records, system)) for system in SYSTEMS]
    return (
        f"By parabolas the baseline's database exhausts {', '.join(order[0]) or 'nothing'} in this order, that of "
        f"shardpulse {', '.join(order[1]) or 'nothing'}, where the paper has memory, CPU, network.",
        "A parabola through a few hundred hosts says little about thousands, which is why shardpulse counts only what "
        "was measured, and memory grows with the length of a run in the baseline, where rows are never deleted.",
    )


_NEEDS = (*baseline.NEEDS, sampler.NEEDS)
MEASURED = Figure(
    "fig6", "Figure 6: resource consumption of the database process over different hosts (p = 1, m = 15)", "3.3",
    _points, partial(drawing.boxes, role=DATABASE, parameter="h", label="hosts h"), _measured, _says_measured, _NEEDS,
)  # fmt: skip
FITTED = Figure(
    "fig7", "Figure 7: the scalability of one database, fitted (p = 1, m = 15)", "3.3",
    _points, _draw_fits, _fitted, _says_fitted, _NEEDS,
)  # fmt: skip
