"""Plots of the evaluation: delay against false alarms, moves against waiting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

mpl.use("Agg")
_MARKS = "os^vDPXph*<>"
_FLOOR = 0.1  #: position of zero on a logarithmic axis
_ACROSS = 4  #: panels per row


def draw(document: dict[str, Any], directory: Path, name: str) -> None:
    """Write NAME-detection.png and NAME-closed.png."""
    for part, rows, figures, labels in (
        ("detection", document["watching"], ("hot_p95", "level_false_later"),
         ("hot, p95 of steps, s", "false by level per 100 h")),
        ("closed", document["closed"], ("moves", "waiting_seconds"), ("moves", "guests wait, s")),
    ):  # fmt: skip
        _panels(rows, figures, labels).savefig(directory / f"{name}-{part}.png", dpi=80, metadata={"Software": ""})


def _panels(rows: Sequence[dict[str, Any]], figures: tuple[str, str], labels: tuple[str, str]) -> Figure:
    """One panel per scenario, one mark per judge: lower left is better."""
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    judges = list(dict.fromkeys(row["judge"] for row in rows))
    down = max(1, -(-len(scenarios) // _ACROSS))
    figure = Figure(figsize=(4.0 * _ACROSS, 3.2 * down + 0.8), layout="constrained")
    axes = figure.subplots(down, _ACROSS, squeeze=False).ravel().tolist()
    for axis, scenario in zip(axes, scenarios, strict=False):
        _panel(axis, scenario, [row for row in rows if row["scenario"] == scenario], judges, figures)
        axis.set_xlabel(labels[0], fontsize=8)
        axis.set_ylabel(labels[1], fontsize=8)
    for axis in axes[len(scenarios) :]:
        axis.set_visible(False)
    for number, judge in enumerate(judges):
        axes[0].plot([], [], _MARKS[number % len(_MARKS)], color=f"C{number % 10}", label=judge)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _panel(
    axis: Axes, scenario: str, rows: Sequence[dict[str, Any]], judges: Sequence[str], figures: tuple[str, str]
) -> None:
    axis.set_title(scenario, fontsize=9)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.grid(alpha=0.3, which="both")
    for row in rows:
        across, up = row[figures[0]], row[figures[1]]
        if across[0] is None or up[0] is None:
            continue
        number = judges.index(row["judge"])
        value, low, high = (max(_FLOOR, up[0] if each is None else each) for each in up)
        axis.errorbar(
            max(across[0], _FLOOR), value, [[value - low], [high - value]], fmt=_MARKS[number % len(_MARKS)],
            color=f"C{number % 10}", markersize=6, alpha=0.8,
        )  # fmt: skip
