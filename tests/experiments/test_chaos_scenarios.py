"""The scenarios of chaos in a small form: nobody is calm where nothing can be seen, overload is counted, parts roll."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acquisition.snapshot.values import states
from experiments.chaos import installation, schedule, witness
from experiments.chaos.__main__ import main, parse
from experiments.chaos.answers import Said, Truth, falsely_down, is_calm, summary
from experiments.chaos.fault_runner import Course
from experiments.chaos.kinds import Fault
from experiments.chaos.scenarios import SCENARIOS
from experiments.chaos.witness import Witness
from experiments.testbed import missing_for_shards
from tests.support.waiting import eventually

LACK = missing_for_shards()
needs_namespaces = pytest.mark.skipif(bool(LACK), reason=f"THE SCENARIOS OF CHAOS ARE NOT TESTED HERE: {LACK}")
UNHELD = states.CAUSES[states.UNHELD]
_PATIENCE = 90.0  #: seconds, of a busy machine
Suffer = Callable[..., dict[str, Any]]
ASKED = {
    "SnapshotReader.coherent", "SnapshotReader.latest", "a new reader", "stream", "/v1/hosts", "/v1/hot", "/v1/moves",
    "/v1/heat", "/v1/snapshot", "query --json", "query hot", "query moves", "top --json",
}  # fmt: skip


@needs_namespaces
@pytest.mark.few
def test_without_a_filter_every_answer_says_that_it_cannot_see(tmp_path: Path) -> None:
    """What is false is never said: while blindness begins, while it lasts, and while it ends."""
    options, _ = parse(["--scenario", "blindness", "--hosts", "6"])
    with installation.running(options, tmp_path) as parts:
        eventually(parts.is_current, _PATIENCE)
        with Witness(parts) as asked:
            parts.workers[0].kill()
            eventually(lambda: told_by(asked) == ASKED, _PATIENCE, says=lambda: str(ASKED - told_by(asked)))
            parts.workers[0].start()
            eventually(parts.is_current, _PATIENCE)
        answers, wrong = witness.judge(asked.said, [], options)
    assert wrong == []
    assert set(answers["peace"]) == ASKED


def told_by(asked: Witness) -> set[str]:
    """The surfaces that have said that no worker holds the partition, commands with their exit code."""
    return {said.surface for said in [*asked.said] if UNHELD in said.told or "exit code 69" in said.told}


@pytest.fixture
def suffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Suffer:
    """A run of a scenario with less of everything, and with these faults alone."""

    def run(name: str, hosts: int, faults: list[Fault], **changes: Any) -> dict[str, Any]:
        scenario = SCENARIOS[name]
        monkeypatch.setitem(SCENARIOS, name, scenario._replace(options={**scenario.options, **changes}))
        monkeypatch.setattr(schedule, "make", lambda *_: faults)
        command = ["--scenario", name, "--hosts", str(hosts), "--generators", "2", "--seconds", "1"]
        main([*command, "--json", "--keep", str(tmp_path / "logs")])
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return run


@needs_namespaces
@pytest.mark.few
def test_parts_that_are_replaced_all_the_time_lose_nothing(suffer: Suffer) -> None:
    parts = ("worker", "service")
    faults = [Fault(0.5 * number, f"replace_{parts[number % 2]}", 0, 0.0, number // 2 % 2) for number in range(4)]
    found = suffer("rolling", 6, faults, workers=2, services=1)
    assert found["failures"] == []
    assert set(found["faults"]) == {"replace_worker", "replace_service"}
    assert all(row["made"] for row in found["faults"].values())
    assert found["balance"]["samples_applied"] == found["samples_made"] > 0
    assert found["balance"]["samples_lost"] == found["mismatches"] == 0
    assert {"SnapshotReader.coherent", "/v1/hosts"} <= set(found["answers"]["replace_worker"])


@needs_namespaces
@pytest.mark.few
def test_busiest_hosts_shed_excess_and_books_balance(suffer: Suffer) -> None:
    """On a busy machine others shed as well, and values are older than the verdict allows: that is left to the run."""
    found = suffer("overload", 20, [Fault(0.0, "talkative_hosts", 0, 12.0)])
    overload, balance = found["overload"], found["balance"]
    assert overload["samples_shed"] == balance["samples_lost"] > 0
    assert balance["samples_pending"] == 0
    assert balance["samples_applied"] + balance["samples_lost"] == found["samples_made"]
    assert not [failure for failure in found["failures"] if failure.startswith("host ") or "not drained" in failure]
    assert overload["share_of_talkative"] > 2 * overload["share_of_others"]
    assert overload["most_hosts_shedding"] > 0  # readers are told
    assert overload["oldest_seconds"] < 30.0
    assert found["mismatches"] == 0
    assert not any(row["calm"] for rows in found["answers"].values() for row in rows.values())


def test_an_answer_is_judged_by_the_fault_that_began_last() -> None:
    options, _ = parse(["--scenario", "blindness", "--hosts", "4"])
    killed = Course(Fault(1.0, "filters_killed", 0, 12.0), made=100.0, healing=112.0, healed=115.0)
    some = Course(Fault(20.0, "some_probes_killed", 1, 15.0), made=120.0, healing=135.0, healed=137.0)
    skipped = Course(Fault(50.0, "probes_cut", 0, 15.0), skipped="the cluster is not well")
    said = [
        Said("x", 99.0, {"host00001.bench": "down"}, told="y"),  # before all faults: it lives
        Said("x", 102.0), Said("x", 106.0), Said("x", 110.0), Said("x", 106.0, told="no host is visible"),
        Said("x", 130.0, dict.fromkeys(("host00001.bench", "host00003.bench"), "down"), told="y"),  # they are dead
        Said("x", 150.0, {"host00000.bench": "down"}, told="y"),
    ]  # fmt: skip
    found, wrong = witness.judge(said, [killed, some, skipped], options)
    assert {kind: (row["x"]["answers"], row["x"]["down"], row["x"]["calm"]) for kind, row in found.items()} == {
        "peace": (1, 1, 0),
        "filters_killed": (4, 0, 1),  # from the third second on, and not within the last three
        "some_probes_killed": (2, 1, 0),
    }
    assert len(wrong) == 3


def test_what_is_false_is_counted() -> None:
    truth = Truth(3, frozenset(["c"]), (3.0, 9.0))
    assert falsely_down(Said("x", 1.0, {"a": "down", "b": "current", "c": "down"}), truth) == ["a"]
    assert is_calm(Said("x", 1.0, {"a": "late", "b": "late", "c": "late"}, 0), truth)
    assert is_calm(Said("x", 1.0, {"a": "current"}, 1), truth), "two are missing"
    assert not is_calm(Said("x", 1.0, {"a": "late", "b": "late", "c": "late"}, 0, "no host is visible"), truth)
    assert is_calm(Said("x", 4.0), truth)
    assert not is_calm(Said("x", 2.0), truth)
    assert not is_calm(Said("x", 4.0, told="no picture", refused=True), truth)
    answers = [Said("x", 1.0, {"a": "late"}, 0), *(Said("x", at, {"a": "down"}, 0, "two") for at in (2.0, 3.0))]
    counted = {"answers": 3, "down": 2, "most_down": 1, "calm": 1, "told": "two"}
    found = summary([(said, truth) for said in answers])
    assert found == {"x": {**counted, "first_down": {"seconds": 2.0, "hosts": ["a"]}}}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_deals_its_own_kinds_alone(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", name, "--seconds", "300", "--schedule"]) == 0
    dealt = {line.split()[2] for line in capsys.readouterr().out.splitlines()}
    with pytest.raises(SystemExit):
        main(["--help"])
    explained = capsys.readouterr().out.partition(f"scenario {name}:")[2].partition("\n\n")[0]
    assert dealt == {line.split()[0] for line in explained.splitlines()[1:] if line.startswith("  ")}
    assert main(["--scenario", "earthquake"]) == 2
    assert name in capsys.readouterr().err
