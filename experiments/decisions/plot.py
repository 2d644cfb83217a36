"""Plots of a report: steps, delay and false alarms, migrations and overload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.decisions import synthetic
from experiments.decisions.campaign import Frozen, Task
from experiments.decisions.detection import Series, observe
from experiments.decisions.load import Floats
from experiments.decisions.monitor import Monitor
from experiments.decisions.truth import overloads
from experiments.decisions.watch import FIVE_MINUTES, RAW, TEN_SECONDS, WATCHES, Watch

mpl.use("Agg")
_RULE_MARKS = {
    "threshold": "o", "sandpiper": "s", "neat_mad": "^", "neat_iqr": "v", "neat_regression": "D", "cusum": "P",
    "nobody": "x", "oracle": "*",
}  # fmt: skip
_SHOWN = 90  #: seconds around a step
_PANELS = 6  #: loads that are drawn; those that are no day of traces first
_FLOOR = 1e-3  #: where zero is drawn on a logarithmic axis


def draw(document: dict[str, Any], task: Task, frozen: Frozen, directory: Path, name: str) -> None:
    """Write NAME-step.png, NAME-detection.png and NAME-control.png."""
    _save(_step(document, task, frozen), directory / f"{name}-step.png")
    _save(_detection(document), directory / f"{name}-detection.png")
    _save(_control(document), directory / f"{name}-control.png")


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=80, metadata={"Software": ""})


def _step(document: dict[str, Any], task: Task, frozen: Frozen) -> Figure:
    """One noisy step as each way of watching sees it."""
    series = observe(synthetic.build("noisy step", task.seeds[0], task.size))
    first = overloads(series.level)[0]
    window = np.arange(max(0, first.first - _SHOWN // 3), min(series.ticks, first.first + _SHOWN))
    figure = Figure(figsize=(10, 5), layout="constrained")
    axis = figure.subplots()
    default = document["default"]
    ema = next(watch for watch in WATCHES if watch.name == default["watch"])
    axis.plot(window, series.used[window, first.host], color="lightgrey", label="raw 1 Hz")
    axis.plot(window, series.level[window, first.host], color="black", linewidth=1, label="truth")
    for watch, colour in ((ema, "tab:red"), (TEN_SECONDS, "tab:blue"), (FIVE_MINUTES, "tab:green")):
        seen = _seen(series, watch, first.host)
        axis.step(window, seen[window], where="post", color=colour, label=watch.name)
    limit = getattr(frozen.get((ema.name, default["rule"])), "high", None)
    if limit is not None:
        axis.axhline(limit, color="tab:red", linestyle=":", linewidth=1, label="high")
    axis.set_xlabel("seconds")
    axis.set_ylabel("CPU of the host")
    axis.legend(loc="lower right", fontsize=8)
    axis.grid(alpha=0.3)
    return figure


def _seen(series: Series, watch: Watch, host: int) -> Floats:
    """The level that rules see over time."""
    monitor = Monitor(watch, 1, 1)
    column = slice(host, host + 1)
    monitor.warm(series.before[-watch.interval :, column])
    seen = np.empty(series.ticks, np.float32)
    for tick in range(series.ticks):
        monitor.tick(series.used[tick, column], series.valid[tick, column])
        seen[tick] = monitor.mean[0]
    return seen


def _detection(document: dict[str, Any]) -> Figure:
    """False alarms in noise against the delay of steps: lower left is better."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    rows = {(row["load"], row["rule"], row["watch"]): row for row in document["detection"]}
    for axis, load in zip(figure.subplots(1, 2, sharey=True), ("step", "noisy step"), strict=True):
        for (name, rule, watch), row in rows.items():
            if name == load and row["delay_seconds"] is not None:
                quiet = rows["noise", rule, watch]["false_alarms_per_host_hour"]
                _mark(axis, max(row["delay_seconds"]["p50"], 0.5), max(quiet, _FLOOR), rule, watch)
        axis.axvline(5.0, color="grey", linestyle="--", linewidth=1)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(f"{load}: median delay, s")
        axis.grid(alpha=0.3, which="both")
    figure.axes[0].set_ylabel(f"false alarms per host-hour of noise ({_FLOOR:g}: none)")
    _legend(figure)
    return figure


def _control(document: dict[str, Any]) -> Figure:
    """Migrations against overload, per load: lower left is better."""
    every = dict.fromkeys(row["load"] for row in document["control"] if row["load"] != "noise")
    loads = sorted(every, key=lambda load: load.startswith("day "))[:_PANELS]
    figure = Figure(figsize=(4.2 * min(3, len(loads)), 4.0 * ((len(loads) + 2) // 3)), layout="constrained")
    axes = np.atleast_1d(figure.subplots((len(loads) + 2) // 3, min(3, len(loads)))).ravel()
    for axis, load in zip(axes, loads, strict=False):
        for row in document["control"]:
            if row["load"] == load:
                moves, overload = row["migrations_per_host_hour"], row["overload_seconds_per_host_hour"]
                _mark(axis, max(moves, _FLOOR), max(overload, 0.1), row["rule"], row["watch"])
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(load, fontsize=10)
        axis.set_xlabel("migrations per host-hour")
        axis.set_ylabel("overload, s per host-hour")
        axis.grid(alpha=0.3, which="both")
    for axis in axes[len(loads) :]:
        axis.set_visible(False)
    _legend(figure)
    return figure


def _mark(axis: Axes, x: float, y: float, rule: str, watch: str) -> None:
    axis.plot(x, y, _RULE_MARKS[rule], color=_colour(watch), markersize=7, alpha=0.8)


def _colour(watch: str) -> str:
    fixed = {"-": "black", FIVE_MINUTES.name: "tab:green", TEN_SECONDS.name: "tab:blue", RAW.name: "grey"}
    smoothed = [each.name for each in WATCHES if each.smoothed]
    shades = ("khaki", "gold", "orange", "darkorange", "orangered", "firebrick", "darkmagenta")
    return fixed.get(watch) or shades[smoothed.index(watch) % len(shades)]


def _legend(figure: Figure) -> None:
    axis = figure.axes[0]
    for rule, mark in _RULE_MARKS.items():
        axis.plot([], [], mark, color="black", label=rule)
    for watch in WATCHES:
        axis.plot([], [], "s", color=_colour(watch.name), label=watch.name)
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8)
