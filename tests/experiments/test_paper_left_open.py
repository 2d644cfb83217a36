"""The figures of what the paper left open, from records that a simulated pipeline would have left."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Plot

from experiments.paper import lean_runs
from experiments.paper.figure import SHARDPULSE, Extent, Figure, Point, Record, Records, Row
from experiments.paper.fitted import FITS, extrapolated
from experiments.paper.lean_runs import BUSIEST, CORES, COST, READER, UNITS
from experiments.paper.simulate import Costs, Setup, simulate
from experiments.paper.simulation import SIMULATION
from experiments.paper.snapshots import SNAPSHOT
from experiments.paper.speedup import SPEEDUP
from experiments.paper.systems import DATABASE, FILTER

QUICK = Extent(1.0, True)
COSTS = Costs(8e-6, 25e-6, 35e-6, 3e-6, 30e-6, 20e-6, 60e-6, 0.01)


def as_measured(point: Point) -> Sequence[Row]:
    """What a run of this point would have measured on a machine with these costs."""
    known = point.parameters
    found = simulate(Setup(int(known["h"]), rate=1.0 / known["t"], shards=int(known["shards"]), seconds=1.0), COSTS)
    millions = known["h"] * 1515 / known["t"] / 1e6
    values = [
        (DATABASE, CORES, found.shard_cores), (DATABASE, BUSIEST, found.shard), (DATABASE, "samples", millions * 1e6),
        (DATABASE, COST, found.shard_cores / millions), (FILTER, COST, found.worker_cores / millions),
        (FILTER, CORES, found.worker_cores), (READER, "age_p95", found.age_p95), (DATABASE, "memory", 1e8),
    ]  # fmt: skip
    return [Row(SHARDPULSE, role, quantity, UNITS[quantity], 1.0, value) for role, quantity, value in values]


def recorded(figure: Figure) -> Records:
    """All points of a figure."""
    points = figure.points(QUICK)
    return Records([Record(point.name, point.parameters, row) for point in points for row in as_measured(point)])


def drawn(figure: Figure, records: Records) -> int:
    """The lines of its plots."""
    plot = Plot()
    figure.draw(plot, records)
    return sum(len(axis.lines) for axis in plot.axes)


def test_simulation_is_checked_and_plans_all_sizes() -> None:
    """Records that obey the model are predicted, the first bottleneck is named, and each size has its machines."""
    records = recorded(SIMULATION)
    findings = SIMULATION.findings(records)
    assert [finding.met for finding in findings if finding.goal] == [True] * 6
    bottleneck = next(finding for finding in findings if "first bottleneck" in finding.what)
    assert bottleneck.shardpulse.startswith("network, 14,")
    assert any(finding.what.startswith("100,000 hosts") for finding in findings)
    assert drawn(SIMULATION, records) == 9
    assert "the network, at 14," in SIMULATION.says(records)[0]


def test_prediction_beyond_the_tolerance_is_missed() -> None:
    """A filter that takes half as much again at 10,000 hosts as its service times say."""
    records = Records([
        record._replace(row=record.row._replace(value=record.row.value * 1.5))
        if record.row.role == FILTER and record.parameters["h"] == 10_000 else record
        for record in recorded(SIMULATION).all
    ])  # fmt: skip
    missed = [finding.what for finding in SIMULATION.findings(records) if finding.met is False]
    assert missed == ["simulated and measured at 10,000 hosts: cores of the filter"]


def test_speed_up_is_that_of_the_busiest_shard() -> None:
    """With the same hosts in all no shard can win; with as many on each, commits are shared by more frames."""
    records = recorded(SPEEDUP)
    shown = {finding.what: finding.shardpulse for finding in SPEEDUP.findings(records)}
    whole = float(shown["speed-up of 4 shards, by CPU time, 2,000 hosts in all"].split()[0])
    each = float(shown["speed-up of 4 shards, by CPU time, 500 hosts on each shard"].split()[0])
    assert 2.0 < whole <= 4.0 < each
    assert drawn(SPEEDUP, records) == 5


def test_fits_are_ordered_by_what_they_predict() -> None:
    """A straight line with noise beside a parabola; and what a fit to 64 hosts says of 1,000 is compared with them."""
    values = {"baseline": lambda h: 0.01 + (h / 100.0) ** 2, "shardpulse": lambda h: 0.01 + h / 5000.0}
    noise = itertools.cycle([1.001, 0.999, 1.0005])
    records = Records([
        Record(f"{system}-{hosts}", {"h": hosts}, Row(system, DATABASE, "cpu", "", 1.0, value(hosts) * next(noise)))
        for system, value in values.items() for hosts in (1, 4, 16, 64, 250, 1000)
    ])  # fmt: skip
    ordered, exhausted, beyond = FITS.findings(records)
    assert ordered.baseline.startswith(("parabola", "power law"))
    assert ordered.shardpulse.rindex("power law") > 0
    assert exhausted.baseline.startswith(("99", "100"))
    assert exhausted.shardpulse.startswith(("4,9", "5,0"))
    assert beyond.baseline.count("%") == 3
    half = extrapolated({1.0: 1.0, 4.0: 4.0, 16.0: 16.0, 64.0: 64.0, 1000.0: 2000.0})
    assert half["line"] == pytest.approx(-0.5)
    assert drawn(FITS, records) > 6


@pytest.mark.few
def test_real_point_has_every_quantity_of_its_figures(tmp_path: Path) -> None:
    """A small real run, and what the simulated ones above pretend to have measured."""
    point = lean_runs.point("lean", 5, 2)
    rows = {(row.role, row.quantity): row for row in point.measure(QUICK, tmp_path)}
    assert {(row.role, row.quantity) for row in as_measured(point)} <= set(rows)
    assert 0 < rows[READER, "age_p50"].value <= rows[READER, "age_p95"].value < 5.0
    assert rows[DATABASE, BUSIEST].value <= rows[DATABASE, CORES].value + 0.01
    assert rows[DATABASE, "samples"].value > 0


@pytest.mark.parametrize("figure", [SIMULATION, SPEEDUP, SNAPSHOT, FITS], ids=lambda figure: figure.name)
def test_a_figure_without_points_says_so(figure: Figure) -> None:
    """Every point may have failed."""
    assert figure.findings(Records()) == []
    assert figure.says(Records())[0].endswith(".")
    drawn(figure, Records())
