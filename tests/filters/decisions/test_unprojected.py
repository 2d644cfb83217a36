"""Verdicts that name what no projection knows, and the cost of moves."""

from __future__ import annotations

import pytest

from acquisition.config.decisions import Decisions, Policy
from filters.decisions.constraints import projection
from filters.decisions.deciding import judge_all
from filters.decisions.method import method_of
from filters.decisions.migrations import STARTED, Migration, Migrations
from filters.decisions.picture import CPU, Host
from filters.decisions.plan import Proposals, propose
from filters.decisions.verdict import Figure, Outcome, Verdict, decide
from tests.support.pictures import GIB, constant, host, picture, vm

WAITING = "pressure_cpu_some_ratio"
METHOD = method_of(
    Decisions(
        rule="threshold",
        policy=Policy(moves_per_host=9),
        parameters={"threshold": {"metric": WAITING, "high": 0.1, "low": 0.05, "enter": 0.1, "k": 0, "plateau": 0}},
    )
)


def waiting(ratio: float) -> dict[str, object]:
    return {WAITING: constant(WAITING, ratio)}


def plan(*hosts: Host, log: Migrations | None = None) -> Proposals:
    seen = picture(*hosts)
    return propose(seen, judge_all(seen, METHOD.rule, METHOD.parameters), METHOD, log or Migrations())


def hot() -> Host:
    return host("hot", [vm("a", 2.0), vm("b", 1.0), vm("c", 1.0)], extra=waiting(0.3))  # type: ignore[arg-type]


CALM = host("calm", cpu=0.1, extra=waiting(0.0))  # type: ignore[arg-type]


def test_a_verdict_names_what_was_measured() -> None:
    figures = (
        Figure(f"{CPU} mean", 0.95, "ratio", "VALID"), Figure("high", 0.9), Figure(WAITING, 0.1, "ratio", "VALID"),
        Figure("swap_in_bytes", None, "", "MISSING"),
    )  # fmt: skip
    assert projection.named(decide(True, "", 0.1, *figures)) == (CPU, WAITING)
    assert projection.unprojected(decide(True, "", 0.1, *figures)) == (WAITING,)
    assert projection.unprojected(Verdict(Outcome.HOT, "", figures[:2])) == ()


@pytest.mark.parametrize(
    ("metric", "resource"),
    [(WAITING, CPU), ("tasks_runnable", CPU), ("pressure_memory_some_ratio", "memory_used_ratio"),
     ("swap_in_bytes_per_second", "memory_used_ratio"), ("network_used_ratio", "network_used_ratio")],
)  # fmt: skip
def test_each_metric_follows_from_a_resource(metric: str, resource: str) -> None:
    assert projection.resource_of(metric) == resource


def test_one_vm_leaves_where_the_figure_cannot_be_projected() -> None:
    found = plan(hot(), CALM)
    assert [(move.vm.name, move.destination.name) for move in found.moves] == [("a", "calm")]


def test_the_next_one_waits_for_the_first() -> None:
    log = Migrations({"uuid-a": Migration("uuid-a", "hot", "calm", 990.0, None, STARTED)})
    found = plan(hot(), CALM, host("other", cpu=0.1, extra=waiting(0.0)), log=log)  # type: ignore[arg-type]
    assert not found.moves
    assert {each.reason for each in found.refusals} == {
        f"what its next move does for {WAITING} is known when the migration in progress has ended"
    }


def test_nothing_movable_is_said() -> None:
    fixed = host("hot", [vm("a", 2.0, labels={"pinned": "1"})], extra=waiting(0.3))  # type: ignore[arg-type]
    reasons = [each.reason for each in plan(fixed, CALM).refusals]
    assert "none of its VMs can be moved now: moving a (it is pinned) may help" in reasons


# --- cost --------------------------------------------------------------------------------------------------------


def priced(dirty: float | None = None, **policy: float) -> Proposals:
    how = method_of(Decisions(policy=Policy(**policy)))  # type: ignore[arg-type]
    guest = vm("a", 4.0, 4)
    if dirty is not None:
        name = "memory_dirty_bytes_per_second"
        guest = guest._replace(readings={**guest.readings, name: constant(name, dirty)})
    seen = picture(host("hot", [guest, vm("b", 3.6, 4, labels={"pinned": "1"})]), host("idle", cpu=0.1))
    return propose(seen, judge_all(seen, how.rule, how.parameters), how, Migrations())


def test_cost_is_memory_over_bandwidth_and_says_what_is_unknown() -> None:
    cost = priced(migration_bytes_per_second=GIB).moves[0].cost
    assert cost.seconds == pytest.approx(4.0)
    assert cost.reason == (
        "at least 4 s to copy 4096 MiB at 1024 MiB/s, its dirty rate is unknown; "
        "frees 0.5 of cpu_busy_ratio, 0.15 is needed"
    )
    assert {figure.name: figure.value for figure in cost.figures}["memory_dirty_bytes_per_second"] is None


def test_bandwidth_is_that_of_the_slower_link_by_default() -> None:
    assert priced().moves[0].cost.seconds == pytest.approx(4 * GIB / 1.25e9)


def test_dirty_rate_makes_a_move_longer_or_impossible() -> None:
    cost = priced(GIB / 2, migration_bytes_per_second=GIB).moves[0].cost
    assert cost.seconds == pytest.approx(8.0)
    assert cost.reason.startswith("8 s to copy")
    never = priced(GIB, migration_bytes_per_second=GIB)
    assert not never.moves
    assert any("it writes 1024 MiB/s, as much as can be copied there" in each.reason for each in never.refusals)
