"""Speed-up figure: capacity of n shards relative to one.

The paper leaves it open.

A shard is one thread on one core, so the capacity of n of them is their throughput divided by the CPU seconds of the
busiest, each with its own core, independent of other load of the machine. Two series: the same hosts on more shards
(the work of one is divided), and as many hosts on each (the more a shard finds at each turn, the cheaper its work).
Shards are pinned one to a core, starting again at the first core if there are more of them: on a machine with more
cores the same command measures as many shards as it has cores, and prints the same table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from acquisition.shards.servers import machine
from experiments.paper import lean_runs
from experiments.paper.figure import SHARDPULSE, Extent, Figure, Finding, Point, Records
from experiments.paper.lean_runs import BUSIEST, COST
from experiments.paper.systems import DATABASE, FILTER, median

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

_PER_SHARD, _QUICK_PER_SHARD = 2500, 500
_LEAST = 4  #: shards that are always measured, even with fewer cores


def _points(extent: Extent) -> Sequence[Point]:
    per_shard = _QUICK_PER_SHARD if extent.quick else _PER_SHARD
    counts = _counts()
    loads = [(shards, per_shard * counts[-1]) for shards in counts] + [
        (shards, per_shard * shards) for shards in counts
    ]
    return [lean_runs.point("lean", hosts, shards) for shards, hosts in dict.fromkeys(loads)]


def _counts() -> list[int]:
    """1, 2, 4, ... and as many as there are cores."""
    most = max(_LEAST, len(machine.cores()))
    return sorted({2**power for power in range(most.bit_length()) if 2**power <= most} | {most})


def capacity(records: Records) -> dict[tuple[int, int], float]:
    """Capacity of the shards of a point in samples/s, by shards and hosts."""
    found = {}
    for record in records.of(SHARDPULSE, DATABASE, BUSIEST).all:
        shards, hosts = int(record.parameters["shards"]), int(record.parameters["h"])
        samples = records.of(SHARDPULSE, DATABASE, "samples", shards=shards, h=hosts)
        found[shards, hosts] = samples.values[0] / record.row.value
    return found


def series(found: dict[tuple[int, int], float]) -> dict[str, dict[int, float]]:
    """Speed-up by shards: the same hosts in all, and as many on each shard; empty without the point of one shard."""
    most = max((hosts for _, hosts in found), default=0)
    least = min((hosts for shards, hosts in found if shards == 1), default=0)
    whole = {shards: found[shards, hosts] for shards, hosts in sorted(found) if hosts == most}
    each = {shards: found[shards, hosts] for shards, hosts in sorted(found) if hosts == least * shards}
    named = {f"{most:,} hosts in all": whole, f"{least:,} hosts on each shard": each}
    return {name: {shards: value / of[1] for shards, value in of.items()} for name, of in named.items() if 1 in of}


def _draw(plot: Plot, records: Records) -> None:
    axis, costs = plot.subplots(1, 2)
    for name, points in series(capacity(records)).items():
        axis.plot(list(points), list(points.values()), marker="o", label=name)
    counts = _counts()
    axis.plot(counts, counts, color="grey", linestyle=":", label="n times one shard")
    axis.set_xlabel("shards")
    axis.set_ylabel("samples/s per core of a shard, to those of one shard")
    axis.legend()
    for role in (DATABASE, FILTER):
        found = records.of(SHARDPULSE, role, COST).over("shards")
        costs.plot(list(found), [min(values) for values in found.values()], marker="o", label=f"{role}, most hosts")
    costs.set_xlabel("shards")
    costs.set_ylabel(lean_runs.UNITS[COST])
    costs.set_ylim(bottom=0.0)
    costs.legend()


def _findings(records: Records) -> Sequence[Finding]:
    found = capacity(records)
    findings = []
    for name, points in series(found).items():
        for shards, times in points.items():
            if shards > 1:
                what = f"speed-up of {shards} shards, by CPU time, {name}"
                findings.append(Finding(what, "left open", "", f"{times:.2f} ({times / shards:.0%} of {shards})"))
    for (shards, hosts), samples in sorted(found.items()):
        cost = median(records.of(SHARDPULSE, DATABASE, COST, shards=shards, h=hosts))
        of_filter = median(records.of(SHARDPULSE, FILTER, COST, shards=shards, h=hosts))
        findings.append(Finding(
            f"shards: {shards}, hosts: {hosts:,}; samples/s that a core for each shard could take; CPU seconds per "
            "million samples of shards and filter",
            "7,680 samples/s", "", f"{samples / 1e6:.1f} million samples/s; {cost:.4f} and {of_filter:.4f}",
        ))  # fmt: skip
    return findings


def _says(records: Records) -> tuple[str, str]:
    shown = [
        f"{max(points)} shards take {points[max(points)]:.1f} times what one takes with {name}"
        for name, points in series(capacity(records)).items()
    ]
    return (
        ("; ".join(shown) or "No speed-up was measured") + ".",
        "A partition lies on one shard and nothing is asked of two, so shards do not wait for each other; what is lost "
        "is that each wakes up for less work, and what is won where hosts grow with shards is that the same 64 "
        "partitions are committed less often per frame.",
    )


SPEEDUP = Figure("speedup", "Speed-up with 1 to n shards, by CPU time per core", "", _points, _draw, _findings, _says)
