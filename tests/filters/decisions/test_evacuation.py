"""Hosts in maintenance: all VMs leave, those that cannot are named with what keeps them."""

from __future__ import annotations

from acquisition.config.decisions import Decisions, Policy
from filters.decisions.deciding import judge_all
from filters.decisions.method import method_of
from filters.decisions.migrations import FINISHED, Migration, Migrations
from filters.decisions.picture import Picture, Transit
from filters.decisions.plan import MAINTENANCE, Proposals, propose
from tests.support.pictures import host, picture, vm

LEAVING = {"maintenance": "true"}


def plan(seen: Picture, policy: Policy | None = None, log: Migrations | None = None) -> Proposals:
    how = method_of(Decisions(policy=policy or Policy(moves_per_host=20)))
    return propose(seen, judge_all(seen, how.rule, how.parameters), how, log or Migrations())


def moved(found: Proposals) -> list[tuple[str, str]]:
    return [(each.vm.name, each.destination.name) for each in found.moves]


def reasons(found: Proposals) -> dict[str, str]:
    return {(each.vm or each.host).name: each.reason for each in found.refusals}


def test_all_vms_leave_a_host_in_maintenance() -> None:
    guests = [vm("a", 1.0, 2), vm("b", 0.01, 2), vm("c", 0.0, 2)]
    found = plan(picture(host("old", guests, labels=LEAVING), host("one", cpu=0.1), host("two", cpu=0.2)))
    assert [name for name, _ in moved(found)] == ["a", "b", "c"]  # also what frees nothing
    assert {each.cause for each in found.moves} == {MAINTENANCE}
    assert found.moves[0].why_host.reason == "it is in maintenance, VMs to move: 3"
    assert not found.refusals


def test_a_host_in_maintenance_takes_no_vm() -> None:
    hot = host("hot", [vm("a", 4.0, 2), vm("b", 3.8, 2)])
    found = plan(picture(hot, host("old", labels=LEAVING)))
    assert not found.moves
    assert "old: it is in maintenance" in reasons(found)["a"]


def test_vm_that_moved_recently_leaves_all_the_same() -> None:
    log = Migrations({"uuid-a": Migration("uuid-a", "one", "old", 900.0, 995.0, FINISHED)})
    seen = picture(host("old", [vm("a", 1.0)], labels=LEAVING), host("one", cpu=0.1), host("two", cpu=0.3))
    assert moved(plan(seen, log=log)) == [("a", "two")]  # one settles after that migration


def test_hot_hosts_come_before_hosts_in_maintenance() -> None:
    hot = host("hot", [vm("h", 1.0), vm("r", 6.8, labels={"pinned": "1"})])
    old = host("old", [vm("m", 3.0)], labels=LEAVING)
    found = plan(picture(old, hot, host("one", cpu=0.1)), Policy(moves=1))
    assert moved(found) == [("h", "one")]


def test_moves_per_host_hold_for_maintenance() -> None:
    old = host("old", [vm("a"), vm("b"), vm("c")], labels=LEAVING)
    assert len(plan(picture(old, host("one", cpu=0.1)), Policy(moves_per_host=2)).moves) == 2


def test_what_cannot_leave_is_named_with_what_would_help() -> None:
    old = host("old", [vm("a", 1.0, labels={"pinned": "1"}), vm("b", 6.0, 2)], labels=LEAVING)
    found = reasons(plan(picture(old, host("full", cpu=0.5))))
    assert found["old"] == "it is in maintenance, 2 of its VMs cannot leave now: a, b"
    assert found["a"] == "it is pinned"
    assert found["b"].endswith("; full lacks least: 0.5 of cpu_busy_ratio")  # 0.5 + 0.75 is above 0.75


def test_every_vm_of_a_host_in_maintenance_is_tried() -> None:
    guests = [vm(f"large{i}", 6.0, 2) for i in range(7)] + [vm("small", 0.1, 2)]
    found = plan(picture(host("old", guests, cpu=0.5, labels=LEAVING), host("half", cpu=0.5)), Policy())
    assert moved(found) == [("small", "half")]


def test_migrations_in_progress_count_in_all() -> None:
    log = Migrations({"uuid-z": Migration("uuid-z", "there", "elsewhere", 990.0, None, "started")})
    seen = picture(host("old", [vm("a")], labels=LEAVING), host("one", cpu=0.1))
    assert not plan(seen, Policy(moves=1), log).moves
    assert reasons(plan(seen, Policy(moves=1), log))["old"] == (
        "as many migrations as may be at a time (1) are in progress or proposed"
    )
    assert len(plan(seen, Policy(moves=2), log).moves) == 1
    also_seen = seen._replace(transits=(Transit("uuid-z", "there", "elsewhere", "there"),))
    assert len(plan(also_seen, Policy(moves=2), log).moves) == 1  # once each


def test_migrations_that_are_seen_and_not_reported_count_in_all() -> None:
    hosts = (host("old", [vm("a")], labels=LEAVING), host("one", cpu=0.1))
    guests = [vm(f"m{number}", 0.1) for number in range(9)]
    others = (host("there", guests), *(host(f"to{number}", cpu=0.5) for number in range(2)))
    transits = [Transit(f"uuid-m{number}", "there", f"to{number % 2}", "there") for number in range(2)]
    seen = picture(*hosts, *others)._replace(transits=(*transits, transits[0]._replace(destination="to1")))
    assert not plan(seen, Policy(moves=2)).moves
    assert len(plan(seen, Policy(moves=3)).moves) == 1
    claims = tuple(Transit(each.id, "there", "to0", "there") for each in guests)  # a host may claim any number
    assert len(plan(seen._replace(transits=claims), Policy(moves=2)).moves) == 1


def test_proposal_of_a_host_that_nobody_sees_is_gone() -> None:
    old, one = host("old", [vm("a", 1.0)], labels=LEAVING), host("one", cpu=0.1)
    seen, how = picture(one), method_of(Decisions())
    before = plan(picture(old, one)).moves
    assert before
    assert not propose(seen, judge_all(seen, how.rule, how.parameters), how, Migrations(), before=before).moves
