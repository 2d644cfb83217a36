"""Drawing shared by several figures: a panel for each resource."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING

from experiments.paper.figure import BASELINE, SHARDPULSE, SYSTEMS, Records
from experiments.paper.sampler import UNITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

COLOURS = {BASELINE: "tab:orange", SHARDPULSE: "tab:blue"}
PAPER = "grey"


def boxes(plot: Plot, records: Records, role: str, parameter: str, label: str) -> None:
    """Box plots over a parameter, a column for each system: medians above them, and joined by a red line."""
    panels = plot.subplots(len(UNITS), len(SYSTEMS), squeeze=False, sharex="col")
    for row, (resource, unit) in zip(panels, UNITS.items(), strict=True):
        for axis, system in zip(row, SYSTEMS, strict=True):
            found = records.of(system, role, resource).over(parameter)
            places = list(range(1, len(found) + 1))
            middles = [median(values) for values in found.values()]
            if found:
                axis.boxplot(list(found.values()), positions=places, flierprops={"markersize": 2})
                axis.plot(places, middles, color="red", linewidth=1)
                axis.set_xticks(places, [f"{value:g}" for value in found])
                above = axis.secondary_xaxis("top")
                above.set_xticks(places, [f"{value:.2g}" for value in middles], fontsize=6)
            axis.set_ylabel(f"{resource}\n({unit})", fontsize=7)
            axis.set_ylim(bottom=0)
    for axis, system in zip(panels[0], SYSTEMS, strict=True):
        axis.set_title(system, fontsize=10)
    for axis in panels[-1]:
        axis.set_xlabel(label)


def lines(plot: Plot, records: Records, role: str, parameter: str, label: str, level: float) -> None:
    """Medians over a parameter on logarithmic axes, both systems in one panel, with a dotted line at ``level``."""
    for axis, (resource, unit) in zip(plot.subplots(len(UNITS), 1, sharex=True), UNITS.items(), strict=True):
        for system in SYSTEMS:
            found = records.of(system, role, resource).over(parameter)
            series(axis, {value: median(values) for value, values in found.items()}, system)
        axis.axhline(level, color="red", linestyle=":", label=f"{level:g}")
        if records.all:
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
        axis.set_ylabel(f"{resource}\n({unit})", fontsize=8)
        axis.legend(fontsize=8)
    axis.set_xlabel(label)


def series(axis: Axes, values: Mapping[float, float], system: str) -> None:
    """Marks joined by a line in the colour of a system."""
    if values:
        axis.plot(list(values), list(values.values()), marker="o", color=COLOURS[system], label=system)
