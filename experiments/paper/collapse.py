"""Figure 10: 32 resource sets on a growing number of hosts, up to collapse.

It ends with the paper's data center.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from experiments.paper import baseline, drawing, product, sampler
from experiments.paper.figure import BASELINE, SHARDPULSE, SYSTEMS, Extent, Figure, Finding, Point, Records
from experiments.paper.systems import (
    DATABASE,
    ENOUGH,
    FILTER,
    KEPT_UP,
    NO_ROOM,
    PROBE,
    SAMPLES,
    Load,
    compare,
    full,
    point,
    shown,
)

_SETS = 32
_BASELINE, _BASELINE_QUICK = (1, 2, 4, 8, 16, 24, 48), (1, 4)
_OURS, _OURS_QUICK = (1, 16, 64, 250, 1000, 5000, 10_500), (1, 64, 1000)
_DATA_CENTER = Load(hosts=100, sets=101, metrics=5)  #: 50,500 samples/s: the introduction of the paper
_COLLAPSE = 16  #: hosts, in the paper
_FULL = 0.9  #: of a core: a database that takes this much is exhausted
_N_APP, _PAPER_RATE = 50_000, 7680
_GOAL_RATE, _GOAL_CORES = 5e6, 0.2


def _points(extent: Extent) -> Sequence[Point]:
    return [
        *(
            point(BASELINE, baseline.running, Load(count, _SETS), count * _SETS / 8)
            for count in extent.some(_BASELINE, _BASELINE_QUICK)
        ),
        *(
            point(f"{SHARDPULSE}-emulated", product.emulated, load, load.hosts / 200)
            for load in [*(Load(count, _SETS) for count in extent.some(_OURS, _OURS_QUICK)), _DATA_CENTER]
        ),
    ]


def of_sets(records: Records) -> Records:
    """The points with 32 resource sets on each host."""
    return records.of(p=_SETS)


def best_rate(records: Records, system: str) -> float | None:
    """The highest rate at which a database stored all samples; None if none was measured."""
    stored = records.of(system, DATABASE, KEPT_UP).over("h")
    rates = records.of(system, DATABASE, SAMPLES).over("h")
    return max((max(rates[hosts]) for hosts, share in stored.items() if min(share) >= ENOUGH), default=None)


def _capacity(records: Records, system: str) -> float | None:
    """Samples/s that the database would take with a full core, by its CPU at the highest rate: a fit."""
    cpu = {h: median(values) for h, values in records.of(system, DATABASE, "cpu").over("h").items()}
    rates = {h: max(values) for h, values in records.of(system, DATABASE, SAMPLES).over("h").items()}
    most = max(cpu.keys() & rates.keys(), default=None)
    return None if most is None or not cpu[most] else rates[most] / cpu[most]


def _highest(records: Records, system: str, resource: str) -> float | None:
    """The highest median of a resource of the database."""
    return max(map(median, records.of(system, DATABASE, resource).over("h").values()), default=None)


def _needed(measured: float | None, fitted: float | None) -> str | None:
    """Independent acquisition systems for the paper's data center, given the samples/s of one."""
    if not measured or not fitted:
        return None
    by_fit = f"{math.ceil(_DATA_CENTER.rate / fitted)} with its core full (not measured)"
    return f"{math.ceil(_DATA_CENTER.rate / measured)} at the highest rate measured, {by_fit}"


def _cores(records: Records) -> float | None:
    """Cores for all parts in the paper's data center: probes, database and filter."""
    at = {"h": _DATA_CENTER.hosts, "p": _DATA_CENTER.sets, "m": _DATA_CENTER.metrics}
    each = [records.of(SHARDPULSE, role, "cpu", **at).values for role in (PROBE, DATABASE, FILTER)]
    return sum(map(median, each)) if all(each) else None


def _ended(records: Records, system: str) -> str:
    """Reason why the series of a system ended."""
    if missing := records.of(system, PROBE, NO_ROOM).over("h"):
        return f"memory of this machine for {min(missing):g} hosts x {_SETS} probes ends it before the database does"
    tried = records.of(system, DATABASE, KEPT_UP).over("h")
    if slow := tried.keys() - full(records, system):
        return (
            f"at {min(slow):,g} hosts this machine made too few of their samples: it ends it before the database does"
        )
    if short := {h for h, share in tried.items() if min(share) < ENOUGH}:
        cpu = shown(_highest(records, system, "cpu"))
        return f"at {min(short):,g} hosts not all samples were stored; the database took {cpu} of a core at most"
    return f"not by {max(tried):,g} hosts, the most that were tried" if tried else "not measured"


def _findings(records: Records) -> Sequence[Finding]:
    series = of_sets(records)
    rates = {system: best_rate(series, system) for system in SYSTEMS}
    at_full = {system: _capacity(series, system) for system in SYSTEMS}
    needed = {system: _needed(rates[system], at_full[system]) for system in SYSTEMS}
    network = {system: _highest(series, system, "network") for system in SYSTEMS}
    link, most, ours, cores = network[BASELINE], at_full[BASELINE], rates[SHARDPULSE], _cores(records)
    busiest, stored = _highest(series, BASELINE, "cpu"), series.of(BASELINE, DATABASE, KEPT_UP).over("h")
    why = (
        "one core of today executes some ten times as many INSERTs per second, and the probes of all hosts run on this "
        "machine: what ends the series is their memory, or the number of hosts that were tried"
    )
    return [
        compare(
            f"what ends the series with {_SETS} resource sets on each host",
            f"memory and CPU of the database at {_COLLAPSE} hosts",
            {system: _ended(series, system) for system in SYSTEMS},
            None if busiest is None or max(stored, default=0) < _COLLAPSE else busiest > _FULL, why,
        ),
        compare(
            f"samples/s of one database, all of them stored, against N_app = {_N_APP:,}", f"{_PAPER_RATE:,}", rates,
            goal=f"at least {_GOAL_RATE:,.0f}", met=None if ours is None else ours >= _GOAL_RATE,
        ),
        compare(
            "samples/s of one database with its core full (by its CPU at the highest rate: not measured)",
            f"{_PAPER_RATE:,}", at_full,
        ),
        compare(
            f"network of the database at its highest load ({sampler.UNITS['network']})", "never a bottleneck", network,
            None if link is None else link < 1, "the database exhausts a link of 1 Gbit/s",
        ),
        compare(
            f"independent acquisition systems for {_DATA_CENTER.rate:,.0f} samples/s",
            "at least 6 (50,500 / 7,680 = 6.6)", needed, None if most is None else most < _DATA_CENTER.rate, why,
            "1, measured", None if ours is None else ours >= _DATA_CENTER.rate,
        ),
        compare(
            "cores for the paper's data center with everything: probes (emulated), database, filter", "not given",
            {BASELINE: None, SHARDPULSE: cores},
            goal=f"below {_GOAL_CORES:g}", met=None if cores is None else cores < _GOAL_CORES,
        ),
    ]  # fmt: skip


def _says(records: Records) -> tuple[str, str]:
    series = of_sets(records)
    rates = [shown(best_rate(series, system)) for system in SYSTEMS]
    return (
        f"The paper's database collapsed at {_COLLAPSE} hosts and {_PAPER_RATE:,} samples/s; here the baseline's "
        f"stored {rates[0]} samples/s and that of shardpulse {rates[1]} without loss.",
        f"Baseline: {_ended(series, BASELINE)}; a database of shardpulse takes one frame per host and second, whatever "
        "the number of resource sets in it.",
    )


FIGURE = Figure(
    "fig10", "Figure 10: resource consumption of the database process, 32 resource sets on each of h hosts", "3.3",
    _points, lambda plot, records: drawing.lines(plot, of_sets(records), DATABASE, "h", "hosts h", 1.0), _findings,
    _says, (*baseline.NEEDS, sampler.NEEDS),
)  # fmt: skip
