"""Plot of log cost: ratios to a build without statements, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.use("Agg")
_TITLES = {"probe": "a tick of the probe", "filter": "a turn of the filter"}


def draw(document: Mapping[str, Any], path: Path, most: float) -> None:
    """Write the plot; ``most`` is the greatest allowed ratio of shipped to none."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    panels = figure.subplots(1, len(document["loops"]), squeeze=False)[0]
    for axis, (loop, row) in zip(panels, document["loops"].items(), strict=True):
        for place, (name, ratio) in enumerate(row["to_none"].items()):
            values = [each["to_none"][name] for each in row["rounds"]]
            axis.plot(values, [place] * len(values), "o", color="lightgrey", markersize=4)
            ends = [[ratio["mean"] - ratio["low"]], [ratio["high"] - ratio["mean"]]]
            axis.errorbar(ratio["mean"], place, xerr=ends, fmt="o", color="tab:blue", capsize=4)
        axis.axvline(1.0, color="black", linewidth=1)
        axis.axvline(most, color="tab:red", linestyle=":", linewidth=1)
        axis.set_yticks(range(len(row["to_none"])), [*row["to_none"]])
        axis.set_ylim(len(row["to_none"]) - 0.5, -0.5)
        axis.set_title(f"{_TITLES[loop]}: {row['ms_per_iteration']['none']:.2f} ms without statements", fontsize=10)
        axis.set_xlabel("CPU time, none = 1")
        axis.grid(alpha=0.3, axis="x")
    figure.savefig(path, dpi=80, metadata={"Software": ""})
