"""The experiment that runs shardpulse beside Prometheus: what it calls wrong, the load, and the trees of files."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from pathlib import Path

import pytest

from experiments.beside import benefit, faults, script, tables
from experiments.beside.answers import HOT, LOADED, NOTHING, Answer, called, is_wrong, of_prometheus, of_shardpulse
from experiments.beside.benefit import Hot
from experiments.beside.prometheus import RULES, SETTINGS
from experiments.beside.script import BUSY, CALM_CORES, DEAD, IDLE, Change, Move, Overload, Plan, Stage
from experiments.beside.tree import HostTree
from experiments.harness.outcome import RESULTS
from probes.metrics import HOST, VMS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sources.procfs_host import HostSource
from probes.sources.procfs_vms import VmSource
from tests.support import ROOT

NAN = float("nan")


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (Answer(0.95, True), HOT),
        (Answer(None, True), HOT),
        (Answer(0.1, True), HOT),
        (Answer(0.95), LOADED),
        (Answer(0.5), LOADED),
        (Answer(0.499), IDLE),
        (Answer(-700.0), IDLE),
        (Answer(NAN), NOTHING),
        (Answer(), NOTHING),
    ],
)
def test_alert_goes_before_value_and_no_value_is_nothing(answer: Answer, what: str) -> None:
    assert called(answer) == what


def test_only_busy_or_dead_called_idle_and_idle_called_hot_is_wrong() -> None:
    every = itertools.product((BUSY, IDLE, DEAD), (HOT, IDLE, LOADED, NOTHING))
    wrong = {(truth, what) for truth, what in every if is_wrong(truth, what)}
    assert wrong == {(BUSY, IDLE), (DEAD, IDLE), (IDLE, HOT)}
    truth = {"host-0": "bbii", "vm-0": "dddd"}
    assert faults.count(truth, {"host-0": "hihl", "vm-0": "il--"}) == faults.Count(8, 3, 2)


def test_answers_of_prometheus_are_its_values_and_firing_alerts() -> None:
    hosts = [{"metric": {"instance": name}, "value": [0, value]} for name, value in (("h1", "0.97"), ("h2", "NaN"))]
    vms = [{"metric": {"groupname": "vm-1"}, "value": [0, "1.8"]}]
    alerts = [
        {"labels": {"alertname": name, "instance": host}, "state": state}
        for name, host, state in (("Hot", "h1", "pending"), ("Hot", "h3", "firing"), ("Other", "h2", "firing"))
    ]
    found = of_prometheus(hosts, vms, alerts, "Hot")
    assert {name: called(answer) for name, answer in found.items()} == {
        "h1": LOADED, "h2": NOTHING, "h3": HOT, "vm-1": LOADED,
    }  # fmt: skip


def test_answers_of_shardpulse_leave_out_shadows_and_missing_means() -> None:
    figure = {"name": "cpu_busy_ratio mean", "value": 0.2}
    hot = {"hot": [{"host": "h1", "outcome": "hot", "figures": []}], "not_hot": None}
    idle = {
        "hot": [],
        "saturated": [{"host": "h3", "outcome": "saturated", "figures": [{**figure, "value": 0.95}]}],
        "not_hot": [{"host": "h2", "outcome": "not_hot", "figures": [figure]}],
    }
    names = [("vm-1", True), ("vm-1", False), ("vm-2", False)]
    entities = [{"name": name, "shadow": shadow} for name, shadow in names]
    snapshot = {"blocks": [{"entities": entities, "mean": [[0.0], [1.8], [None]]}]}
    assert of_shardpulse(hot, {"blocks": []}) == {"h1": Answer(None, True)}
    assert of_shardpulse(idle, snapshot) == {
        "h2": Answer(0.2),
        "h3": Answer(0.95),
        "vm-1": Answer(0.9),
        "vm-2": Answer(None),
    }


def test_load_has_one_overload_of_each_host_and_short_bursts() -> None:
    plan, overloads = script.benefit(10, 600.0, 1)
    assert [each.host for each in overloads] == list(range(10))
    for each in overloads:
        changes = [change for change in plan.changes if change.vm == each.host]
        assert changes[0] == Change(0.0, each.host, CALM_CORES)
        assert [change.at for change in changes if change.cores == script.BUSY_CORES] == [each.onset]
        bursts = [change.at for change in changes if change.cores == script.BURST_CORES]
        ends = [change.at for change in changes if change.cores == CALM_CORES]
        assert all(min(end - at for end in ends if end > at) <= 6.0 for at in bursts)
        assert not any(each.onset - 6.0 < at < each.end for at in bursts)
    assert plan == script.benefit(10, 600.0, 1)[0] != script.benefit(10, 600.0, 2)[0]


def test_stage_knows_where_vms_are_and_what_they_use() -> None:
    stage = Stage(2)
    stage.take(script.halves(2, 10.0))
    stage.take(Plan((), (Move(20.0, 0, 0, 1),)))
    assert [(stage.host_is(0, at), stage.host_is(1, at)) for at in (15.0, 25.0)] == [(BUSY, IDLE), (IDLE, BUSY)]
    assert stage.cores_on(0, 9.0, 11.0) == {"vm-0": pytest.approx((CALM_CORES + script.BUSY_CORES) / 2)}
    assert set(stage.cores_on(1, 19.0, 21.0)) == {"vm-0", "vm-1"}
    assert [len(stage.due(at)) for at in (19.0, 20.0, 21.0)] == [0, 1, 0]
    swapped = script.swapped(stage, (0, 1), 30.0)
    assert swapped.changes == (Change(30.0, 0, script.IDLE_CORES), Change(30.0, 1, script.BUSY_CORES))


def test_delay_ends_at_first_hot_answer_late_alarm_is_not_false() -> None:
    overloads = [Overload(0, 10.0, 40.0), Overload(1, 10.0, 40.0)]
    seen = [(5.0, {1}), (12.0, {0}), (13.0, {0}), (14.0, set()), (60.0, {1}), (150.0, {0, 1}), (151.0, {0})]
    found = benefit.worth([Hot(at, frozenset(hosts)) for at, hosts in seen], overloads, 200.0)
    assert found["delay_seconds"] == {"p50": 2.0, "p95": 2.0}
    assert (found["missed"], found["false_alarms"]) == (1, 2)
    assert found["healthy_host_hours"] == pytest.approx(2 * 110 / 3600, abs=1e-3)


def test_interval_of_a_count_is_that_of_the_tables() -> None:
    assert benefit.poisson_interval(0) == pytest.approx((0.0, 3.689), abs=1e-3)
    assert benefit.poisson_interval(10) == pytest.approx((4.795, 18.39), abs=1e-2)


def test_probe_reads_from_a_tree_what_the_load_says(tmp_path: Path) -> None:
    tree = HostTree(tmp_path, 1)
    tree.begin("vm-3")
    facts = HostFacts("host-3", str(tmp_path / "proc"), str(tmp_path / "sys"))
    host, vms = HostSource(HOST, facts), VmSource(VMS, facts, Discovery(facts, Selection(), 0.0))
    idle, pressure, cores = ([metric.name for metric in each.metrics].index(name) for each, name in _COLUMNS)
    pressures: list[float] = []

    def sample(second: int, used: float = 1.4) -> tuple[float, list[tuple[str, float]]]:
        tree.advance(10.0, {"vm-3": used}, time.time())
        found = vms.sample(second, second)
        assert found is not None
        rows = found.values[cores :: len(VMS.metrics)]
        values = host.sample(second, second).values
        pressures.append(values[pressure])
        return values[idle], [(entity.name, value) for entity, value in zip(found.entities, rows, strict=True)]

    sample(10)
    free, guests = sample(20)
    assert (free, guests) == (pytest.approx(0.25, abs=0.1), [("vm-3", pytest.approx(1.4, abs=0.01))])
    sample(30, 1.8)
    assert 0.05 < pressures[1] < 0.3 < pressures[2] < 0.7
    tree.blind(True)
    assert sample(40)[0] != sample(40)[0]  # NaN
    tree.end("vm-3")
    tree.blind(False)
    assert sample(50)[1] == []
    for each in (tree, host, vms):
        each.close()


_COLUMNS = ((HOST, "cpu_idle_ratio"), (HOST, "pressure_cpu_some_ratio"), (VMS, "cpu_ratio"))


@pytest.mark.needs("promtool")
def test_rules_are_valid_and_have_the_alerts_that_are_asked_for() -> None:
    files = [str(RULES / setting.rules) for setting in SETTINGS]
    done = subprocess.run(["promtool", "check", "rules", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for setting, file in zip(SETTINGS, files, strict=True):
        assert all(f"- alert: {alert}\n" in Path(file).read_text() for alert in setting.alerts.values())


def test_documents_show_the_saved_run() -> None:
    document = json.loads((RESULTS / "beside.json").read_text())
    assert list(document["truth"]) == [fault.name for fault in faults.FAULTS]
    for page, table in (("README.md", tables.truth(document)), ("beside.md", tables.benefit(document))):
        assert "\n".join(table) in (ROOT / "docs" / page).read_text(), f"paste the table into {page}"
