"""Plots of the evaluation: delay against false alarms, moves against waiting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from experiments.decisions.report import has_steps

mpl.use("Agg")
_MARKS = "os^vDPXph*<>"
_FLOOR, _MISSED = 0.1, 1000.0  #: positions of zero, and of an infinite delay, on a logarithmic axis
_ZERO_UP = {_FLOOR: "0", 1.0: "1", 10.0: "10", 100.0: "100", 1000.0: "1000"}
_ACROSS = 4  #: panels per row


def draw(document: dict[str, Any], directory: Path, name: str) -> None:
    """Write NAME-detection.png and NAME-closed.png."""
    labels = ("hot, p95 of steps, s", "false by level per 100 h")
    delays = _panels(document["watching"], ("hot_p95", "level_false_later"), labels, (1.0, 1.5 * _MISSED))
    delays.axes[0].set_xticks([3.0, 10.0, 30.0, 100.0, _MISSED], ["3", "10", "30", "100", "∞"])
    for axis in delays.axes:
        axis.set_yticks(list(_ZERO_UP), list(_ZERO_UP.values()))
    moves = _panels(document["closed"], ("moves", "waiting_seconds"), ("moves", "guests wait, s"), (_FLOOR / 2.0, 1e3))
    moves.axes[0].set_xticks(list(_ZERO_UP)[:4], list(_ZERO_UP.values())[:4])
    for part, figure in (("detection", delays), ("closed", moves)):
        figure.savefig(directory / f"{name}-{part}.png", dpi=80, metadata={"Software": ""})


def _panels(
    rows: Sequence[dict[str, Any]], figures: tuple[str, str], labels: tuple[str, str], span: tuple[float, float]
) -> Figure:
    """One panel per scenario, one mark per judge: lower left is better. ``span``: limits of the abscissa."""
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    judges = list(dict.fromkeys(row["judge"] for row in rows))
    down = max(1, -(-len(scenarios) // _ACROSS))
    figure = Figure(figsize=(4.0 * _ACROSS, 3.2 * down + 0.8), layout="constrained")
    scales = {"xscale": "log", "yscale": "log", "xlim": span}
    axes = figure.subplots(down, _ACROSS, squeeze=False, sharex=True, subplot_kw=scales).ravel().tolist()
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
    axis.grid(alpha=0.3)
    axis.xaxis.set_minor_locator(NullLocator())
    for row in rows:
        across, up = row[figures[0]], row[figures[1]]
        if up[0] is None or ("hot_steps" in row and not has_steps(row)):
            continue
        number = judges.index(row["judge"])
        value, low, high = (max(_FLOOR, up[0] if each is None else each) for each in up)
        axis.errorbar(
            _MISSED if across[0] is None else max(across[0], _FLOOR), value, [[value - low], [high - value]],
            fmt=_MARKS[number % len(_MARKS)], color=f"C{number % 10}", markersize=6, alpha=0.8,
        )  # fmt: skip
