"""The plot of the row "cost per sample"."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.use("Agg")

_LABELS = {"all": "all", "generator": "generator (probes' part)", "shards": "shards", "filter": "filter"}


def draw(cost: Mapping[str, Any], path: Path) -> None:
    """Write a PNG: CPU seconds per million samples over samples/s, by role; ``cost`` are the row's figures."""
    points = sorted(cost["points"], key=lambda point: float(point["samples_per_second"]))
    figure = Figure(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    rates = [point["samples_per_second"] for point in points]
    for role, label in _LABELS.items():
        values = [point["cpu_seconds_per_million"][role] for point in points]
        axis.plot(rates, values, marker="o", label=label, linewidth=2.0 if role == "all" else 1.2)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("samples per second (hosts x 101 entities x 15 metrics at 1 Hz)")
    axis.set_ylabel("CPU seconds per million samples")
    axis.set_title(
        f"cost per sample: {cost['ratios']['all']} times that at 10^6 samples/s at the largest rate", fontsize=11
    )
    axis.grid(alpha=0.3, which="both")
    axis.legend()
    figure.savefig(path, dpi=80, metadata={"Software": ""})
