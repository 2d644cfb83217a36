"""The planner's simulation: a data center of known truth, and what the shipped planner reaches in it."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from acquisition.config.decisions import Decisions
from acquisition.model.derived import WAITING
from experiments.planner import __main__ as planner
from experiments.planner import instance
from experiments.planner.sight import Sight
from experiments.planner.world import Size, World
from experiments.simulation.contention import uneven_wait
from filters.decisions.method import method_of
from filters.decisions.picture import CPU

METHOD = method_of(Decisions())


def test_the_shipped_planner_relieves_with_few_moves_and_heats_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    # of so few runs one second more may miss a target
    planner.main(["--runs", "3", "--seconds", "240", "--timed-hosts", "40", "--json"])
    document = json.loads(capsys.readouterr().out)
    means = document["means"]
    assert (document["plan"]["hosts"], document["plan"]["hot"]) == (40, 2)
    assert 3 <= means["fewest"] <= means["moves"] <= 7
    assert 1 <= means["rounds"] <= 4
    assert means["hot_at_end"] == 0
    assert means["overload_seconds"] <= 70
    assert means["relief_seconds"] <= 100
    assert means["hot_destinations"] == 0


def test_a_picture_has_the_figures_of_the_filter_and_guests_wait() -> None:
    world = World(Size(hosts=1, vms=2, overloaded=1, least=0.95, most=0.96, deviation=0.0), 1, migration_seconds=8)
    sight = Sight(world)
    for second in range(-30, 5):
        world.tick(second)
        sight.look()
    (host,) = sight.picture().hosts
    reading = host.readings[CPU]
    assert reading.inputs is not None
    assert (reading.inputs.above, reading.inputs.counted_valid, reading.inputs.warming) == (5, 8, False)
    assert reading.inputs.lowest == reading.last
    cores = sum(vm.readings["cpu_ratio"].mean or 0.0 for vm in host.vms)
    assert cores / world.size.cores == pytest.approx(reading.mean)
    wait = float(uneven_wait(world.done.busy, world.size.cores)[0])
    waiting = host.readings[WAITING]
    assert waiting.last == pytest.approx(wait / (1.0 + wait), rel=1e-4)
    assert waiting.inputs is not None
    assert waiting.inputs.above == 5
    verdict = METHOD.rule.judge(host, METHOD.parameters)
    assert verdict.outcome == "hot"
    assert "guests of h0 wait" in verdict.reason


def test_the_fewest_moves_leave_no_host_hot() -> None:
    given = Namespace(plan_seconds=10, migration_seconds=8)
    size = Size(hosts=3, vms=10, overloaded=1, least=0.97, most=0.97, deviation=0.0, evenness=1000.0)
    assert planner.fewest_moves(METHOD, 1, given, size) == 1  # a tenth of 0.97 leaves 0.87, where guests wait for 3.8%
    assert planner.fewest_moves(METHOD, 1, given, size._replace(vms=30)) == 3  # two leave 0.905, where they wait for 6%
    assert planner.fewest_moves(METHOD, 1, given, size._replace(least=0.6, most=0.6)) == 0


def test_each_host_of_an_instance_is_emptied(tmp_path: Path) -> None:
    hosts = [{"node_id": name, "node_cpu": 88, "node_mem_mb": 368776} for name in "abcd"]
    vms = [
        {
            "instance_id": f"{name}{number}",
            "host_id": name,
            "numa": [{"cpu": 4, "mem_mb": 8192}],
            "allow_migration": movable,
        }
        for name in "abc"
        for number, movable in ((0, name != "a"), (1, 1), (2, 1), (3, 1))
    ]
    apart = [{"granularity": "host", "data": ["b1", "c1"]}]
    cluster = {"host_info": hosts, "vm_instance": vms, "other_requirement": {"deployment_set": apart}}
    path = tmp_path / "instance.json"
    path.write_text(json.dumps({"cluster_list": [cluster]}))
    size, layout = instance.read(path)
    assert (size.hosts, size.cores, layout.shares[0]) == (4, 88.0, 0.25)
    assert [layout.labels[row] for row in (0, 5, 9, 10)] == [{"pinned": "true"}, *[{"anti_affinity": "0"}] * 2, {}]
    found = instance.empty_each(size, layout, 1, METHOD)
    assert found == instance.Emptied(3, 2, 3, 12, {"it is pinned": 1})
