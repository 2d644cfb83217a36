"""Snapshot figure: cost and age of a coherent picture over shard count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.paper.figure import SHARDPULSE, Extent, Figure, Finding, Point, Records, Row
from experiments.paper.systems import median
from experiments.processes.answers import ask

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

_HOSTS = 100
_WARM_UP = 6.0
_PATIENCE = 120.0
_CLIENT = "client"
#: Quantity -> its unit, and its place in the document of ``experiments.reading``, in milliseconds.
_QUANTITIES = {
    "wall_p50": ("milliseconds", "milliseconds", "p50"),
    "wall_p95": ("milliseconds", "milliseconds", "p95"),
    "cpu_p50": ("milliseconds of CPU", "cpu_milliseconds", "p50"),
    "get_p50": ("milliseconds", "reference_milliseconds", "p50"),
    "unchanged_p50": ("milliseconds", "unchanged_milliseconds", "p50"),
    "age_p50": ("milliseconds since the oldest values were sampled", "age_milliseconds", "p50"),
    "age_p95": ("milliseconds since the oldest values were sampled", "age_milliseconds", "p95"),
}
_SHOWN = ("wall_p50", "wall_p95", "cpu_p50", "age_p50", "age_p95")
_SHOWN_AS = "p50, p95, CPU of the client; age of its oldest values p50, p95 (ms)"


def _points(extent: Extent) -> Sequence[Point]:
    return [_point(shards) for shards in extent.some((1, 2, 4, 8, 16), (1, 2, 8))]


def _point(shards: int) -> Point:
    def measure(extent: Extent, _directory: Path) -> Sequence[Row]:
        seconds = 2.0 * extent.seconds
        words = f"--question snapshot --hosts {_HOSTS} --shards {shards} --warm-up {_WARM_UP} --seconds {seconds}"
        found = ask("reading", words.split(), seconds + _PATIENCE)["median"]
        return [
            Row(SHARDPULSE, _CLIENT, name, unit, seconds, found[kind][part])
            for name, (unit, kind, part) in _QUANTITIES.items()
        ]

    parameters = {"h": _HOSTS, "p": 101, "m": 15, "t": 1.0, "shards": shards}
    return Point(f"snapshot-s{shards}-h{_HOSTS}", parameters, measure, _WARM_UP + 12.0, windows=2.0)


def _draw(plot: Plot, records: Records) -> None:
    cost, age = plot.subplots(1, 2)
    labels = {
        "wall_p50": "a new tick, p50", "wall_p95": "a new tick, p95", "cpu_p50": "a new tick, CPU of the client",
        "get_p50": "GET of the same records", "unchanged_p50": "nothing new",
    }  # fmt: skip
    for axis, names in ((cost, labels), (age, {"age_p50": "p50", "age_p95": "p95"})):
        for name, label in names.items():
            found = records.of(SHARDPULSE, _CLIENT, name).over("shards")
            axis.plot(list(found), [values[0] for values in found.values()], marker="o", label=label)
        axis.set_xscale("log", base=2)
        axis.set_xlabel("shards")
        axis.set_ylim(bottom=0.0)
        axis.legend()
    cost.set_ylabel("milliseconds of one coherent snapshot")
    age.set_ylabel("age of its oldest values, milliseconds")


def _findings(records: Records) -> Sequence[Finding]:
    findings = []
    for shards in records.of(SHARDPULSE, _CLIENT, "wall_p50").over("shards"):
        values = ", ".join(f"{median(_at(records, name, shards)) or 0.0:,.1f}" for name in _SHOWN)
        what = f"coherent snapshot of {_HOSTS} hosts, shards: {shards:g}; {_SHOWN_AS}"
        findings.append(Finding(what, "left open", "", values))
    return findings


def _at(records: Records, name: str, shards: float) -> Records:
    return records.of(SHARDPULSE, _CLIENT, name, shards=shards)


def _says(records: Records) -> tuple[str, str]:
    counts = list(records.of(SHARDPULSE, _CLIENT, "wall_p50").over("shards"))
    if len(counts) < 2:
        return "No two numbers of shards were measured.", ""
    few, many = counts[0], counts[-1]
    cost = [median(_at(records, "wall_p50", shards)) or 0.0 for shards in (few, many)]
    age = [median(_at(records, "age_p50", shards)) or 0.0 for shards in (few, many)]
    return (
        f"A coherent picture of {_HOSTS} hosts takes {cost[0]:.1f} ms from {few:g} shard and {cost[1]:.1f} ms from "
        f"{many:g}; its oldest values are {age[0]:,.0f} and {age[1]:,.0f} ms old.",
        "Its age is the price of coherence and not of the number of databases: one tick for all, whose interval and "
        "grace time of half a second are over; all shards are asked in one go, so that each costs a connection and a "
        "wake-up more.",
    )


SNAPSHOT = Figure(
    "snapshot", "A coherent picture from several databases: cost and age over the number of shards", "",
    _points, _draw, _findings, _says,
)  # fmt: skip
