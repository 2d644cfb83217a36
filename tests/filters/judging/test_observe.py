"""From frames through the real filter to a picture, hot hosts and moves; and the command that shows them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import numpy as np
import pytest

from acquisition.cli import main as shardpulse
from acquisition.config.decisions import Decisions, Policy
from acquisition.config.inputs import Inputs
from acquisition.errors import EXIT_TEMPORARY, EXIT_UNAVAILABLE, EXIT_USAGE
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model import codes
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import Snapshot, SnapshotReader
from filters.decisions.deciding import Decided, decide
from filters.decisions.method import method_of
from filters.decisions.migrations import STARTED, Report
from filters.decisions.overload_detection import REGISTRY
from filters.decisions.picture import CPU, MEMORY, NETWORK, Host, Picture
from filters.decisions.verdict import Outcome
from filters.judging import migration_store
from filters.judging.judge import TickJudge, inputs_of
from filters.judging.observe import observe
from filters.judging.whereabouts import whereabouts
from filters.prometheus import render
from filters.service.ticks.event_recorder import EventRecorder
from filters.worker.loop.assembly import lone_worker
from filters.worker.loop.worker import Worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.data_center import GIB, HOST_METRICS, TICKS, Guest, Machine, flowing, run, smooth, smoothing
from tests.support.holding import hold_partitions

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[Worker]:
    with smoothing(cluster) as worker:
        yield worker


def read(shards: Shards, tick: int) -> tuple[SnapshotReader, Snapshot]:
    reader = SnapshotReader(shards.connect(), clock=lambda: tick + 1.6)
    return reader, reader.coherent()


def see(shards: Shards, tick: int, settings: Decisions | None = None, rule: str = "threshold") -> Picture:
    reader, snapshot = read(shards, tick)
    with reader:
        return observe(snapshot, settings or Decisions(), inputs_of(reader, snapshot, REGISTRY[rule]))


def host_of(seen: Picture, name: str) -> Host:
    return next(host for host in seen.hosts if host.name == name)


def small(cluster: Cluster) -> list[Machine]:
    """hot: 7.6 of 8 cores; calm: 2 cores."""
    return [
        Machine(cluster, "hot", [Guest("a", 2.0, 4), Guest("b", 2.4, 2), Guest("c", 3.2, 16)]),
        Machine(cluster, "calm", [Guest("d", 2.0, 8, {"anti_affinity": "db"})]),
    ]


def test_recent_values_are_of_the_tick_and_not_of_before_a_restart(
    shards: Shards, cluster: Cluster, worker: Worker
) -> None:
    machines = small(cluster)
    tick = run(worker, machines, ahead=-10)
    cpu = host_of(see(shards, tick - 2, rule="sandpiper"), "hot").readings[CPU]
    assert (len(cpu.recent), cpu.recent_steps[-1] - cpu.recent_steps[0]) == (TICKS - 2, TICKS - 3)  # two are newer
    machines[0].restart(tick + 1.2)
    for late in range(tick + 1, tick + 11):
        for machine in machines:
            machine.send(late + 0.5)
    smooth(worker, machines, tick + 10)
    seen = see(shards, tick + 10, rule="sandpiper")
    assert [len(host_of(seen, name).readings[CPU].recent) for name in ("hot", "calm")] == [10, TICKS + 10]
    verdict = REGISTRY["sandpiper"].judge(host_of(seen, "hot"), REGISTRY["sandpiper"].defaults)
    assert verdict.outcome == Outcome.ABSTAINED
    assert "WARMING: 10 of 30" in verdict.reason


def test_a_clock_that_was_set_makes_no_vm_young_or_old(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    hot, calm = small(cluster)
    hot.clock_ahead = 3600.0  # it began an hour ahead, and was set right after forty ticks
    last = int(time.time())
    for machine in (hot, calm):
        machine.send_tables(last - 48.5)
        for tick in range(last - 49, last + 1):
            hot.clock_ahead = 3600.0 if tick < last - 9 else 0.0
            machine.send(tick + 0.5)
    smooth(worker, [hot, calm], last)
    vms = host_of(see(shards, last), "hot").vms
    assert [vm.observed_seconds for vm in vms] == [30.0] * 3  # its window is full, which takes so long


def test_a_picture_is_what_was_sampled(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    tick = run(worker, small(cluster))
    seen = see(shards, tick)
    assert seen.tick == tick
    hot = host_of(seen, "hot")
    age = hot.age_seconds
    assert hot.state == "current"
    assert age == pytest.approx(1.1, abs=0.6)  # sampled half a second ahead of the clock of the filter, or not
    cpu = hot.readings[CPU]
    assert (cpu.mean, cpu.last) == (pytest.approx(0.95), pytest.approx(0.95))
    assert (cpu.validity, cpu.stale_seconds, cpu.age_seconds) == ("VALID", 0.0, age)
    assert hot.readings[MEMORY].mean == pytest.approx(11 / 64)
    assert hot.readings[NETWORK].mean == pytest.approx(2e6 / 1.25e9)
    assert cpu.inputs is not None
    assert not cpu.inputs.warming
    assert cpu.inputs.above == cpu.inputs.counted == Inputs().counted_seconds
    assert (cpu.inputs.plateau, cpu.inputs.lowest) == (Inputs().plateau_seconds, pytest.approx(0.95))
    assert [vm.name for vm in hot.vms] == ["a", "b", "c"]
    vm = hot.vms[0]
    assert (vm.id, vm.host, vm.kind) == ("uuid-a", hot.id, "vm")
    assert vm.observed_seconds == pytest.approx(TICKS - 1, abs=0.1)
    assert vm.readings["cpu_ratio"].mean == pytest.approx(2.0)
    assert vm.readings[CPU].mean == pytest.approx(0.25)  # of the 8 cores of its host
    assert vm.readings[MEMORY].mean == pytest.approx(2 / 64)
    assert vm.readings["memory_assigned_bytes"].mean == pytest.approx(4 * GIB)
    assert host_of(seen, "calm").vms[0].labels["anti_affinity"] == "db"


def test_ratios_use_averages_if_filter_keeps_no_inputs(shards: Shards, cluster: Cluster) -> None:
    hold_partitions(cluster)
    worker = lone_worker(cluster, read_layout(cluster), FilterSettings(linger_seconds=0.0, retention_seconds=300.0))
    tick = run(worker, small(cluster))
    worker.close()
    hot = host_of(see(shards, tick), "hot")
    assert hot.readings[CPU].mean == pytest.approx(0.95)
    assert hot.readings[MEMORY].mean == pytest.approx(11 / 64)
    assert hot.readings[NETWORK].mean == pytest.approx(2e6 / 1.25e9)
    assert hot.readings[CPU].inputs is None
    assert set(hot.readings) >= {CPU, MEMORY, NETWORK, *(metric.name for metric in HOST_METRICS)}
    assert hot.vms[0].observed_seconds is None


def test_what_is_invalid_says_so(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    machine = Machine(cluster, "h")
    machine.codes = np.zeros((1, len(HOST_METRICS)), np.uint8)
    machine.codes[0, 1] = codes.TIMEOUT
    tick = run(worker, [machine])
    readings = host_of(see(shards, tick), "h").readings
    assert (readings[CPU].validity, readings[CPU].stale_seconds, readings[CPU].mean) == ("TIMEOUT", None, None)
    assert readings[MEMORY].validity == "VALID"


def test_a_late_host_has_no_figures_and_is_not_idle(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    machines = small(cluster)
    tick = run(worker, machines)
    machines[1].send(tick + 1.5)
    smooth(worker, machines[1:], tick + 1)
    seen = see(shards, tick + 1)
    late = host_of(seen, "hot")
    assert late.state == "late"
    assert late.readings[CPU].mean is None
    method = method_of(Decisions())
    assert decide(seen, method, None).heat.verdicts[late.id].outcome == Outcome.ABSTAINED


def test_two_vms_of_one_uuid_both_count_and_neither_migrates(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    machines = [
        Machine(cluster, "a", [Guest("one", 4.0, 4, stable="uuid-x"), Guest("plain", 1.0, 2)]),
        Machine(cluster, "b", [Guest("two", 2.0, 8, stable="uuid-x")]),
    ]
    tick = run(worker, machines)
    seen = see(shards, tick)
    assert [(vm.id, vm.migrating) for vm in host_of(seen, "a").vms] == [("uuid-x", False), ("uuid-plain", False)]
    [copy] = host_of(seen, "b").vms
    assert (copy.id, copy.migrating, copy.labels["local"]) == ("b:two", False, "yes")
    assert copy.readings["cpu_ratio"].mean == pytest.approx(2.0)
    assert (seen.transits, seen.conflicts) == ((), ())
    assert [(each.vm, each.kind) for each in seen.remarks] == [("b:two", "vm_copied")]
    _, snapshot = read(shards, tick)
    found = {name: whereabouts(snapshot, name, ("vm",)) for name in ("uuid-x", "b:two", "two")}
    assert {name: [(one.entity.name, len(one.hosts)) for one in each] for name, each in found.items()} == {
        "uuid-x": [("one", 1)], "b:two": [("two", 1)], "two": [("two", 1)],
    }  # fmt: skip


def test_vm_that_runs_twice_is_the_gravest_finding(
    shards: Shards, cluster: Cluster, worker: Worker, capsys: Capture
) -> None:
    machines = [Machine(cluster, host, [Guest("web", 1.0, 4, stable="uuid-x")]) for host in ("a", "b")]
    tick = run(worker, machines)
    remarks = see(shards, tick).remarks
    assert [(each.vm, each.kind) for each in remarks] == [("uuid-x", "vm_runs_twice")]
    now = time.time()
    assert EventRecorder().record(cluster, decided(shards, cluster, tick), now) > 0
    assert shardpulse(["status", "--json", "--shards", ",".join(map(str, shards.addresses))]) == EXIT_UNAVAILABLE
    found = [each for each in json.loads(capsys.readouterr().out)["findings"] if "RUNS TWICE" in each["text"]]
    assert [(each["kind"], each["about"]) for each in found] == [("down", "VM uuid-x")]
    assert "its vCPUs run on a and b at once" in found[0]["text"]
    _, snapshot = read(shards, tick)
    assert b'shardpulse_vm_runs_twice{vm="uuid-x",hosts="a,b"} 1' in render(snapshot, None)


def test_migration_that_renames_is_one_vm_with_a_finding(
    shards: Shards, cluster: Cluster, worker: Worker, capsys: Capture
) -> None:
    machines = [
        Machine(cluster, "a", [Guest("old", 4.0, 4, stable="uuid-x")]),
        Machine(cluster, "b", [Guest("new", 0.0, 4, {"incoming": "yes", "started": "900"}, "uuid-x")]),
    ]
    tick = run(worker, machines)
    seen = see(shards, tick)
    assert [vm.name for host in seen.hosts for vm in host.vms] == ["old"]
    assert [(transit.vm, transit.binds) for transit in seen.transits] == [("uuid-x", True)]
    text = "old of a is called new on b, to which it migrates: one VM"
    assert [(each.vm, each.text) for each in seen.remarks] == [("uuid-x", text)]
    recorder = EventRecorder()
    assert recorder.record(cluster, decided(shards, cluster, tick), time.time()) > 0
    shardpulse(["status", "--shards", ",".join(map(str, shards.addresses))])
    assert " ".join(text.split()) in " ".join(capsys.readouterr().out.split())


def test_a_stopped_vm_is_no_idle_guest_and_is_not_moved(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    hot = Machine(cluster, "hot", [Guest("a", 0.0, 4, state=2.0), Guest("b", 3.6, 2), Guest("c", 4.0, 16)])
    tick = run(worker, [hot, Machine(cluster, "calm", [Guest("d", 2.0, 8)])])
    seen = see(shards, tick)
    stopped = host_of(seen, "hot").vms[0]
    assert stopped.state == "stopped"
    verdict = REGISTRY["threshold"].judge(stopped, REGISTRY["threshold"].defaults)
    assert verdict.outcome == Outcome.ABSTAINED
    assert verdict.reason.startswith("a is stopped, ")
    plan = decided(shards, cluster, tick).plan
    assert plan is not None
    assert {each.vm.name: each.reason for each in plan.refusals if each.vm is not None}["a"] == "it is stopped"


def test_labels_of_the_configuration_win(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    tick = run(worker, small(cluster))
    settings = Decisions(
        hosts={"ca*": {"cordoned": True, "rack": "1"}}, vms={"*": {"group": "gold"}, "uuid-d": {"anti_affinity": ""}}
    )
    calm = host_of(see(shards, tick, settings), "calm")
    assert calm.labels == {"cordoned": "true", "rack": "1"}
    assert calm.vms[0].labels["group"] == "gold"
    assert calm.vms[0].labels["anti_affinity"] == ""


def test_processes_are_moved_only_where_the_configuration_says_so(
    shards: Shards, cluster: Cluster, worker: Worker
) -> None:
    guests = [Guest("qemu", 7.0, 4), Guest("libvirtd", 7.0, 4, {"daemon": "yes"})]
    tick = run(worker, [Machine(cluster, "h", guests, kind="process")])
    assert len(host_of(see(shards, tick), "h").vms) == 0
    (vm,) = host_of(see(shards, tick, Decisions(entities="processes")), "h").vms
    assert (vm.id, vm.name, vm.kind) == ("h:1", "qemu", "process")


def test_a_vm_on_two_hosts_is_one_and_is_migrating(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    running, incoming = Guest("a", 2.0, 4), Guest("a", 0.0, 4, {"incoming": "tcp:0:49152", "started": "500"})
    machines = [Machine(cluster, "from", [running]), Machine(cluster, "to", [incoming])]
    tick = run(worker, machines)
    seen = see(shards, tick)
    (vm,) = host_of(seen, "from").vms
    assert vm.migrating
    assert len(host_of(seen, "to").vms) == 0
    assert [each.vm for each in seen.transits] == ["uuid-a"]
    assert seen.transits[0][1:] == (machines[0].id, machines[1].id, machines[0].id, True)


@pytest.mark.parametrize("rule", REGISTRY)
def test_every_rule_judges_what_the_filter_keeps(rule: str, shards: Shards, cluster: Cluster, worker: Worker) -> None:
    tick = run(worker, small(cluster), ticks=45)
    seen = see(shards, tick, rule=rule)
    verdicts = decide(seen, method_of(Decisions(), rule), None).heat.verdicts
    calm = verdicts[host_of(seen, "calm").id]
    assert calm.outcome == Outcome.NOT_HOT, calm
    expected = {
        "contention": Outcome.HOT,  # by its level: nothing says whether anybody waits
        "threshold": Outcome.HOT,
        "sandpiper": Outcome.HOT,
        "neat_regression": Outcome.HOT,
    }  # a constant has no spread and no rise
    assert verdicts[host_of(seen, "hot").id].outcome == expected.get(rule, Outcome.NOT_HOT)


def decided(shards: Shards, cluster: Cluster, tick: int) -> Decided:
    method = method_of(Decisions())
    return decide(see(shards, tick), method, migration_store.read(cluster, method.policy))


def test_moves_end_to_end(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    machines = small(cluster)
    tick = run(worker, machines)
    plan = decided(shards, cluster, tick).plan
    assert plan is not None
    (move,) = plan.moves
    assert (move.vm.name, move.source.name, move.destination.name) == ("c", "hot", "calm")
    migration_store.report(cluster, Report("uuid-c", machines[0].id, machines[1].id, STARTED), Policy())
    plan = decided(shards, cluster, tick).plan
    assert plan is not None
    assert not plan.moves
    assert [each.reason for each in plan.refusals] == ["1 migration from or to it is in progress or proposed"]


def query(shards: Shards, *arguments: str) -> int:
    return shardpulse(["query", *arguments, "--shards", ",".join(map(str, shards.addresses))])


def test_the_command_explains(shards: Shards, cluster: Cluster, capsys: Capture) -> None:
    with flowing(cluster, small(cluster)):
        assert query(shards, "hot", "--grace", "0") == 0
        text = capsys.readouterr().out
        assert "rule contention: guests wait, or memory or network is exhausted" in text
        assert "2 hosts: 1 hot, 0 abstained" in text
        assert "HOT       hot · age " in text
        assert "cpu_busy_ratio mean = 95.0% · VALID · age " in text
        assert "calm" not in text

        assert query(shards, "hot", "--explain", "calm", "--grace", "0") == 0
        text = capsys.readouterr().out
        assert text.startswith("NOT_HOT   calm · age ")
        assert "    memory: not_hot: " in text
        assert "    network: not_hot: " in text
        assert "waiting is unknown (MISSING: calm has no cpu_waiting_ratio)" in text
        assert query(shards, "hot", "--explain", "nowhere", "--grace", "0") == EXIT_USAGE

        ways = ("--selection", "minimum_migration_time", "--placement", "best_fit_decreasing")
        assert query(shards, "moves", "--grace", "0", *ways) == 0
        text = capsys.readouterr().out
        assert "1. b (uuid-b): hot -> calm" in text
        assert "least memory_assigned_bytes (2048 MiB)" in text
        assert "memory_assigned_bytes = 2.00 GiB · VALID · age " in text
        assert "the host with the least free CPU that can take it, with a headroom of 0.15" in text

        assert query(shards, "hot", "--all", "--json", "--grace", "0", "--rule", "neat_regression") == 0
        document = json.loads(capsys.readouterr().out)
        assert document["rule"]["name"] == "neat_regression"
        assert [each["host"] for each in document["hot"]] == ["hot"]
        assert [each["host"] for each in document["not_hot"]] == ["calm"]
        assert {"name", "value", "unit", "validity", "age_seconds", "stale_seconds"} == set(
            document["hot"][0]["figures"][0]
        )

        assert query(shards, "moves", "--json", "--grace", "0") == 0
        document = json.loads(capsys.readouterr().out)
        (move,) = document["moves"]
        assert (move["vm"]["name"], move["source"]["host"], move["destination"]["host"]) == ("c", "hot", "calm")
        assert set(move["why"]) == {"host", "vm", "destination", "cost"}


def test_a_host_that_sends_only_vms_is_unknown_and_not_left_out(
    shards: Shards, cluster: Cluster, capsys: Capture
) -> None:
    machine = Machine(cluster, "h", [Guest("a", 2.0, 4)])
    machine.sends_host = False
    with flowing(cluster, [machine]):
        assert query(shards, "hot", "--grace", "0") == EXIT_TEMPORARY
        text = capsys.readouterr().out
        assert "1 host: no host can be judged: the rule abstains" in text
        assert f"ABSTAINED {machine.id} · late" in text
        assert "it sends no metrics of the host itself" in text


def test_hysteresis_is_kept_while_watching(shards: Shards, cluster: Cluster, capsys: Capture) -> None:
    with flowing(cluster, small(cluster)):
        assert query(shards, "hot", "--json", "--watch", "0.01", "--count", "2", "--grace", "0") == 0
        first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
        assert " is above " in first["hot"][0]["parts"][0]["reason"]
        assert " is still above " in second["hot"][0]["parts"][0]["reason"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["hot", "--rule", "treshold"], 78, "unknown rule 'treshold'; did you mean threshold?"),
        (["hot", "--parameter", "hgh=0.9"], 78, "decisions.parameters.contention.hgh: unknown key; did you mean high?"),
        (["hot", "--parameter", "high"], 2, "expected NAME=VALUE"),
        (["hot", "--parameter", "high=much"], 78, "expected `float`, got `str`"),
        (["moves", "--placement", "x"], 78, "unknown placement 'x'; expected one of best_fit_decreasing, least_loaded"),
        (["moves"], 75, "no samples yet"),
    ],
)
def test_what_is_wrong_is_told(
    arguments: list[str], code: int, words: str, shards: Shards, cluster: Cluster, capsys: Capture
) -> None:
    assert query(shards, *arguments) == code
    assert words in capsys.readouterr().err


def test_hosts_settle_after_a_migration_that_nobody_reported(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    hot, calm = machines = small(cluster)
    incoming = Guest("a", 0.0, 4, {"incoming": "tcp:0:49152", "started": "500"})
    calm.guests = (*calm.guests, incoming)
    tick = run(worker, machines, ahead=-10)
    settings = Decisions()
    judge = TickJudge(settings, method_of(settings))
    reader, snapshot = read(shards, tick)
    with reader:
        assert judge.judge(reader, snapshot).decided.picture.transits
    hot.guests, calm.guests = hot.guests[1:], (calm.guests[0], incoming._replace(cores=2.0))
    for machine in machines:
        machine.send_tables(tick + 1.2)
        machine.send(tick + 1.5)
    smooth(worker, machines, tick + 1)
    reader, snapshot = read(shards, tick + 1)
    with reader:
        decided = judge.judge(reader, snapshot).decided
    assert (decided.picture.transits, decided.plan and decided.plan.moves) == ((), ())
    assert decided.plan is not None
    (refused,) = (each.reason for each in decided.plan.refusals if each.vm is None)
    assert refused == "a migration from or to it ended 0 s ago, settling takes 12 s"
    later = TickJudge(settings, method_of(settings))  # of a service that starts again
    reader, snapshot = read(shards, tick + 1)
    with reader:
        plan = later.judge(reader, snapshot).decided.plan
    assert plan is not None
    assert any("settling takes 12 s" in each.reason for each in plan.refusals)
