"""Fits other than the paper's parabola, ranked by prediction (figure 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.paper import fits, hosts, sampler
from experiments.paper.figure import SYSTEMS, Figure, Finding, Records
from experiments.paper.fits import Comparison, Crossing

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

_FEW = 64  #: hosts of the paper's own runs; it extrapolates beyond them
_BEYOND = 4.0  #: largest drawn size, as a multiple of the largest measured one


def _compared(measured: Mapping[float, float]) -> list[Comparison]:
    return fits.compare(list(measured), list(measured.values())) if measured else []


def extrapolated(measured: Mapping[float, float]) -> dict[str, float]:
    """Relative error at the largest size of each model fitted to sizes up to the paper's 64; empty without a larger
    measured size, or with too few."""
    known = {size: value for size, value in measured.items() if size <= _FEW}
    largest = max(measured, default=0.0)
    if largest <= _FEW or not measured[largest]:
        return {}
    return {each.fit.model.name: float(each.fit.at(largest)) / measured[largest] - 1.0 for each in _compared(known)}


def exhausted(found: Crossing) -> str:
    """Hosts at which a resource is exhausted, with the ends of the interval."""
    size, least, most = (f"{value:,.0f}" if value is not None else "never" for value in found)
    return f"{size} (95%: {least} to {most})"


def _draw(plot: Plot, records: Records) -> None:
    panels = plot.subplots(len(sampler.UNITS), len(SYSTEMS), squeeze=False)
    for system, column in zip(SYSTEMS, panels.T, strict=True):
        for axis, resource in zip(column, sampler.UNITS, strict=True):
            measured = hosts.medians(records, system, resource)
            axis.plot(list(measured), list(measured.values()), "o", color="black", markersize=4)
            for found, error in _compared(measured):
                at = np.geomspace(min(measured), _BEYOND * max(measured), 100)
                low, high = found.band(at)
                (line,) = axis.plot(at, found.at(at), linewidth=1, label=f"{found.model.name}, error {error:.1e}")
                axis.fill_between(at, low, high, color=line.get_color(), alpha=0.12)
                axis.legend(fontsize=7)
            axis.axhline(1.0, color="red", linestyle=":")
            axis.set_xscale("log")
            axis.set_ylim(0, 1.2)
            axis.set_ylabel(resource)
        column[0].set_title(system, fontsize=10)
        column[-1].set_xlabel("hosts")


def _findings(records: Records) -> Sequence[Finding]:
    findings = []
    for resource in sampler.UNITS:
        measured = {system: hosts.medians(records, system, resource) for system in SYSTEMS}
        compared = {system: _compared(points) for system, points in measured.items()}
        if not any(compared.values()):
            continue
        rows: dict[str, list[str]] = {
            f"fits of {resource}, the best first: error of predicting each size from the others": [
                ", ".join(f"{each.fit.model.name} {each.error:.1e}" for each in compared[system]) for system in SYSTEMS
            ],
            f"hosts at which {resource} is exhausted by the best of them": [
                exhausted(fits.crossing(compared[system][0].fit, 1.0)) if compared[system] else "" for system in SYSTEMS
            ],
            f"{resource} at the most hosts, predicted from at most {_FEW}: error": [
                ", ".join(f"{name} {error:+.0%}" for name, error in extrapolated(measured[system]).items())
                for system in SYSTEMS
            ],
        }
        findings += [
            Finding(what, "left open", texts[0] or "not measured", texts[1] or "not measured")
            for what, texts in rows.items()
        ]
    return findings


def _best(records: Records, system: str) -> str:
    named = {resource: _compared(hosts.medians(records, system, resource)) for resource in sampler.UNITS}
    shown = [f"{resource} {found[0].fit.model.name}" for resource, found in named.items() if found]
    return ", ".join(shown) or "nothing measured"


def _says(records: Records) -> tuple[str, str]:
    errors = [abs(error) for resource in sampler.UNITS for system in SYSTEMS
              for error in extrapolated(hosts.medians(records, system, resource)).values()]  # fmt: skip
    worst = f"{max(errors):.0%}" if errors else "not measured"
    return (
        "By cross-validation the best fits are, of the baseline, "
        + "; of shardpulse, ".join(_best(records, system) for system in SYSTEMS)
        + f"; the worst error of a fit to at most {_FEW} hosts at the most hosts that were measured is {worst}.",
        "The paper fits parabolas only; a term more follows the noise of few points, and outside the measured sizes "
        "its square decides, so a band is wide where a straight line would do.",
    )


FITS = Figure(
    "fits", "Line, parabola and power law for the database over hosts, by cross-validation", "",
    hosts.MEASURED.points, _draw, _findings, _says, hosts.MEASURED.needs,
)  # fmt: skip
