"""The planner's simulation: a data center of known truth, and what the shipped planner reaches in it."""

from __future__ import annotations

import json

import pytest

from acquisition.config.decisions import Decisions
from experiments.planner import __main__ as planner
from experiments.planner.sight import Sight
from experiments.planner.world import Size, World
from filters.decisions.method import method_of
from filters.decisions.picture import CPU


def test_the_shipped_planner_relieves_with_few_moves_and_heats_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    # of so few runs one second more may miss a target
    planner.main(["--runs", "3", "--seconds", "240", "--timed-hosts", "40", "--json"])
    document = json.loads(capsys.readouterr().out)
    means = document["means"]
    assert (document["plan"]["hosts"], document["plan"]["hot"]) == (40, 2)
    assert 3 <= means["moves"] <= 7
    assert means["overload_seconds"] <= 70
    assert means["relief_seconds"] <= 100
    assert means["hot_destinations"] == 0


def test_a_picture_has_the_figures_of_the_filter() -> None:
    world = World(Size(hosts=1, vms=2, overloaded=1, least=0.95, most=0.96, deviation=0.0), 1, migration_seconds=8)
    sight = Sight(world)
    for second in range(-30, 5):
        world.tick(second)
        sight.look()
    (host,) = sight.picture(vms=True).hosts
    reading = host.readings[CPU]
    assert reading.inputs is not None
    assert (reading.inputs.above, reading.inputs.counted_valid, reading.inputs.warming) == (5, 8, False)
    assert reading.inputs.lowest == reading.last
    cores = sum(vm.readings["cpu_ratio"].mean or 0.0 for vm in host.vms)
    assert cores / world.size.cores == pytest.approx(reading.mean)
    assert method_of(Decisions()).rule.judge(host, method_of(Decisions()).parameters).outcome == "hot"
