"""The plot of an overload run: load, what is shed, and how old the newest readable samples are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.overload.scenario import CLASSES, Scenario

mpl.use("Agg")
_COLOURS = {"quiet": "tab:blue", "talkative": "tab:red"}
Rows = Sequence[dict[str, Any]]


def draw(scenario: Scenario, rows: Rows, path: Path) -> None:
    """Write a PNG of three panels."""
    figure = Figure(figsize=(10, 9), layout="constrained")
    load, shed, age = figure.subplots(3, 1, sharex=True)
    _load(load, scenario, rows)
    seconds = [row["seconds"] for row in rows]
    for kind in CLASSES:
        shares = [100.0 * row[f"shed_share_{kind}"] for row in rows]
        shed.step(seconds, shares, where="pre", color=_COLOURS[kind], label=f"{kind} hosts")
        for name, style in (("p99", "-"), ("p50", ":")):
            values = [row[f"age_{kind}"][name] or float("nan") for row in rows]
            age.plot(seconds, values, style, color=_COLOURS[kind], label=f"{kind} hosts, {name}", linewidth=1.3)
    shed.set_ylabel("shed by the probe, %")
    age.axhline(2.0 * scenario.shed_after, color="grey", linestyle="--", linewidth=1, label="bound")
    age.set_ylabel("age of the newest\nreadable samples, s")
    age.set_xlabel("seconds")
    for axis in (load, shed, age):
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(loc="upper right", fontsize=8)
        _shade(axis, rows)
    times = 1.0 / scenario.capacity
    figure.suptitle(f"{scenario.hosts} hosts offer {times:.1f} times what the filter takes while shaded", fontsize=11)
    figure.savefig(path, dpi=80, metadata={"Software": ""})


def _load(axis: Axes, scenario: Scenario, rows: Rows) -> None:
    seconds = [row["seconds"] for row in rows]
    made = [sum(row["made"].values()) for row in rows]
    axis.plot(seconds[1:], _rates(seconds, made), color="black", label="made", linewidth=1.3)
    applied = [row["applied"] for row in rows]
    axis.plot(seconds[1:], _rates(seconds, applied), color="tab:green", label="smoothed", linewidth=1.3)
    axis.axhline(scenario.capacity_rate, color="grey", linestyle="--", linewidth=1, label="what the filter can take")
    axis.set_ylabel("samples per second")


def _rates(seconds: Sequence[float], counts: Sequence[int]) -> list[float]:
    return [(b - a) / max(1e-9, t - s) for (s, t), (a, b) in zip(pairwise(seconds), pairwise(counts), strict=True)]


def _shade(axis: Axes, rows: Rows) -> None:
    high = [row["seconds"] for row in rows if row["high"]]
    if high:
        axis.axvspan(high[0] - 1.0, high[-1], color="orange", alpha=0.12)
