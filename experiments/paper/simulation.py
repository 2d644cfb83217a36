"""Simulation figure: calibrated on up to 500 hosts, checked on larger runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from acquisition.shards.servers import machine
from experiments.emulation import bare_entries
from experiments.emulation.workload import Workload
from experiments.paper import lean_runs, prediction
from experiments.paper.calibration import Run
from experiments.paper.figure import SHARDPULSE, Extent, Figure, Finding, Point, Records
from experiments.paper.lean_runs import CORES, ENTITIES, METRICS, POLL, READER, WATCHED
from experiments.paper.prediction import HEADROOM, SIZES, Demand, Machine
from experiments.paper.sampler import LINK_BYTES
from experiments.paper.simulate import Costs, Setup
from experiments.paper.systems import DATABASE, FILTER
from experiments.processes.needs import package

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

_SHARDS = 2
#: Hosts, and frames per second of each: for the calibration, and for the check.
_CALIBRATION = ((100, 1.0), (500, 1.0), (500, 4.0), (500, 20.0))
_CHECKED = ((2_000, 1.0), (10_000, 1.0))
_TOLERANCE = 0.15
#: Checked figures: name, measured part and quantity, and quantity of the simulation.
_COMPARED = (
    ("cores of the shards", DATABASE, CORES, "shard_cores"),
    ("cores of the filter", FILTER, CORES, "worker_cores"),
    ("age of values when readable, p95, seconds", READER, "age_p95", "age_p95"),
)


class Checked(NamedTuple):
    """One figure of a large run: simulated and measured."""

    hosts: int
    what: str
    simulated: float
    measured: float

    @property
    def error(self) -> float:
        """Ratio of simulated to measured, minus one."""
        return self.simulated / self.measured - 1.0


class Model(NamedTuple):
    """Model derived from the measured points: service times, memory and network per host, and a machine like this
    one."""

    costs: Costs
    demand: Demand
    machine: Machine


def _points(_extent: Extent) -> Sequence[Point]:
    return [lean_runs.point("lean", hosts, _SHARDS, rate) for hosts, rate in (*_CALIBRATION, *_CHECKED)]


def _value(records: Records, role: str, quantity: str, hosts: int, rate: float) -> float | None:
    found = records.of(SHARDPULSE, role, quantity, h=hosts, t=1.0 / rate).values
    return found[0] if found else None


def _setup(hosts: int, rate: float = 1.0) -> Setup:
    return Setup(hosts, ENTITIES * METRICS, rate, _SHARDS, watched=WATCHED, poll=POLL)


def model(records: Records) -> Model | None:
    """The model calibrated from the points of few hosts; None if one of them is missing."""
    runs, hosts, memory = [], [], []
    for number, rate in _CALIBRATION:
        shards = _value(records, DATABASE, CORES, number, rate)
        workers = _value(records, FILTER, CORES, number, rate)
        if shards is None or workers is None:
            return None
        runs.append(Run(_setup(number, rate), shards, workers))
        if rate == 1.0:
            hosts.append(float(number))
            memory.append(sum(_value(records, role, "memory", number, rate) or 0.0 for role in (DATABASE, FILTER)))
    frame = len(bare_entries.payloads(Workload(1, ENTITIES, METRICS))[0])
    wanted = prediction.demand(hosts, memory, float(frame))
    return Model(
        prediction.costs_of(tuple(runs)), wanted, Machine(len(machine.cores()), machine.memory_bytes(), LINK_BYTES)
    )


def check(records: Records, found: Model) -> list[Checked]:
    """Simulated and measured figures of the large runs."""
    checked = []
    for hosts, rate in _CHECKED:
        simulated = prediction.simulated(_setup(hosts, rate), found.costs)
        for what, role, quantity, field in _COMPARED:
            measured = _value(records, role, quantity, hosts, rate)
            if measured:
                checked.append(Checked(hosts, what, getattr(simulated, field), measured))
    return checked


def _plans(found: Model) -> list[prediction.Planned]:
    return [prediction.plan(hosts, *found) for hosts in SIZES]


def _draw(plot: Plot, records: Records) -> None:
    found = model(records)
    if found is None:
        return
    axes = plot.subplots(1, 3)
    sizes = [hosts for hosts in SIZES if hosts <= prediction.first_bottleneck(*found).hosts] or list(SIZES[:1])
    curves = [prediction.simulated(_setup(hosts), found.costs) for hosts in sizes]
    for axis, (what, role, quantity, field) in zip(axes, _COMPARED, strict=True):
        axis.plot(sizes, [getattr(each, field) for each in curves], label=f"simulated, {_SHARDS} shards, 1 worker")
        for label, loads, mark in (("calibration", _CALIBRATION, "o"), ("check", _CHECKED, "s")):
            pairs = [(hosts, _value(records, role, quantity, hosts, rate)) for hosts, rate in loads if rate == 1.0]
            axis.plot([x for x, y in pairs if y], [y for _, y in pairs if y], mark, label=f"measured, {label}")
        axis.set_xscale("log")
        axis.set_xlabel("hosts (101 x 15 samples a second each)")
        axis.set_ylabel(what)
        axis.set_ylim(bottom=0.0)
        axis.legend(fontsize=8)


def _findings(records: Records) -> Sequence[Finding]:
    found = model(records)
    if found is None:
        return []
    findings = [
        Finding(
            f"simulated and measured at {each.hosts:,} hosts: {each.what}", "left open", "",
            f"{each.simulated:.3g} and {each.measured:.3g}, {each.error:+.0%}",
            goal=f"within {_TOLERANCE:.0%}", met=abs(each.error) <= _TOLERANCE,
        )
        for each in check(records, found)
    ]  # fmt: skip
    first = prediction.first_bottleneck(*found)
    what = "first bottleneck of one machine with one shard and one filter worker, simulated (101 x 15 per host)"
    findings.append(Finding(what, "memory, 253 hosts (fitted)", "", f"{first.resource}, {first.hosts:,} hosts"))
    for planned in _plans(found):
        setup, simulated = planned.setup, planned.simulated
        findings.append(Finding(
            f"{setup.hosts:,} hosts, simulated: shards and filter workers, their busiest core, age p95, machines of "
            f"{found.machine.cores} cores with {1 - HEADROOM:.0%} of everything free",
            "left open", "",
            f"{setup.shards} and {setup.workers}, {simulated.shard:.2f} and {simulated.worker:.2f}, "
            f"{simulated.age_p95 * 1000:,.0f} ms, {planned.machines}",
        ))  # fmt: skip
    return findings


def _says(records: Records) -> tuple[str, str]:
    found = model(records)
    if found is None:
        return "The calibration is not complete.", ""
    first = prediction.first_bottleneck(*found)
    largest = prediction.plan(SIZES[-1], *found)
    checked = sorted(check(records, found), key=lambda each: -abs(each.error))
    worst = "".join(
        f"; the worst error of what was checked is {each.error:+.0%} ({each.what}, {each.hosts:,} hosts)"
        for each in checked[:1]
    )
    costs = {name: f"{value * 1e6:.1f}" for name, value in found.costs._asdict().items() if name != "worker_idle"}
    return (
        f"On one machine like this with one shard and one worker the first thing to end is the {first.resource}, at "
        f"{first.hosts:,} hosts; {SIZES[-1]:,} hosts take {largest.machines} machines"
        f"{worst}.",
        "Service times are those of at most 500 hosts, in microseconds of CPU: "
        + ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in costs.items())
        + "; caches that overflow with ten thousand connections and parts that wait for each other's cores are not "
        "simulated.",
    )


SIMULATION = Figure(
    "simulation", "A simulation of the pipeline, from runs of at most 500 hosts to 100,000", "",
    _points, _draw, _findings, _says, (package("simpy", "simpy"),), (14.0, 5.0),
)  # fmt: skip
