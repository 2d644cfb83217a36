"""Plot of a long run: memory of every part, keys, and rates over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.long_run.series import column

mpl.use("Agg")

_MB = 1e6
#: title, series and their labels
_PANELS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("probe", (("probe_rss", "RSS"), ("probe_pss", "PSS"), ("probe_anonymous", "anonymous"))),
    ("filter", (("filter_rss", "RSS"), ("filter_pss", "PSS"), ("filter_anonymous", "anonymous"))),
    ("shards", (("shards_rss", "RSS"), ("shards_used_memory", "used_memory"))),
    ("archiver", (("archive_rss", "RSS"), ("archive_anonymous", "anonymous"))),
    ("service", (("serve_rss", "RSS"), ("serve_anonymous", "anonymous"))),
)

Rows = Sequence[Mapping[str, float]]


def draw(rows: Rows, document: Mapping[str, Any], path: Path) -> None:
    """Write a PNG of a panel for each part, keys and entries; ``document`` is the run's."""
    panels = [(title, lines) for title, lines in _PANELS if lines[0][0] in rows[0]]
    figure = Figure(figsize=(10, 2.6 * (len(panels) + 2)), layout="constrained")
    axes = figure.subplots(len(panels) + 2, 1, sharex=True)
    minutes = [at / 60.0 for at in column(rows, "seconds")]
    for axis, (title, lines) in zip(axes, panels, strict=False):
        for name, label in lines:
            axis.plot(minutes, [value / _MB for value in column(rows, name)], label=label, linewidth=1.2)
        _mark(axis, document)
        axis.set_title(_title(title, lines, document), fontsize=10, loc="left")
        axis.set_ylabel("MB")
    _keys(axes[-2], minutes, rows)
    _rate(axes[-1], minutes, rows)
    axes[-1].set_xlabel("minutes")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(loc="lower right", fontsize=8, ncols=3)
    verdict = "flat" if document["passed"] else "NOT PASSED"
    figure.suptitle(f"{document['samples_per_second']:,} samples/s, {document['seconds']:,.0f} s: {verdict}")
    figure.savefig(path, dpi=80, metadata={"Software": ""})


def _title(title: str, lines: Sequence[tuple[str, str]], document: Mapping[str, Any]) -> str:
    judged = [
        f"{label} {document['memory'][name]['growth']:+.2%}" for name, label in lines if name in document["memory"]
    ]
    return f"{title}: {', '.join(judged)} from after the settling time to the last tenth" if judged else title


def _mark(axis: Axes, document: Mapping[str, Any]) -> None:
    """Mark the end of the settling time and the beginning of the last tenth."""
    for seconds in (document["settling_seconds"], 0.9 * document["seconds"]):
        axis.axvline(seconds / 60.0, color="grey", linestyle=":", linewidth=1)


def _keys(axis: Axes, minutes: Sequence[float], rows: Rows) -> None:
    axis.plot(minutes, column(rows, "keys"), label="keys of all shards", linewidth=1.2)
    axis.plot(minutes, column(rows, "members"), label="hosts x resource sets with a position", linewidth=1.2)
    axis.set_title("keys: hosts vanish and are forgotten", fontsize=10, loc="left")


def _rate(axis: Axes, minutes: Sequence[float], rows: Rows) -> None:
    seconds, entries = column(rows, "seconds"), column(rows, "entries")
    rates = [
        (after - before) / max(1e-9, end - start)
        for before, after, start, end in zip(entries, entries[1:], seconds, seconds[1:], strict=False)
    ]
    axis.plot(minutes[1:], rates, label="entries stored per second", linewidth=1.2)
    axis.set_title("entries: one per resource set and tick, and tables", fontsize=10, loc="left")
