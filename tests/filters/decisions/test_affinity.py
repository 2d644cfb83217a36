"""Affinity and anti-affinity to VMs and groups of hosts, as rules and as wishes."""

from __future__ import annotations

import pytest

from acquisition.config.decisions import Decisions, Policy
from filters.decisions.deciding import judge_all
from filters.decisions.method import method_of
from filters.decisions.migrations import Migrations
from filters.decisions.picture import Host
from filters.decisions.plan import Proposals, propose
from tests.support.pictures import host, picture, vm

FAST = {"groups": "fast,ssd"}


def plan(*hosts: Host) -> Proposals:
    how, seen = method_of(Decisions(policy=Policy(moves_per_host=9))), picture(*hosts)
    return propose(seen, judge_all(seen, how.rule, how.parameters), how, Migrations())


def hot(**labels: str) -> Host:
    return host("hot", [vm("a", 2.0, labels=labels), vm("rest", 5.8, labels={"pinned": "1"})])


def target(*hosts: Host) -> str:
    return next((move.destination.name for move in plan(*hosts).moves if move.vm.name == "a"), "")


def why_not(*hosts: Host) -> str:
    return next(each.reason for each in plan(*hosts).refusals if each.vm and each.vm.name == "a")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, "idle"),
        ({"group": "ssd"}, "fast"),
        ({"prefer_group": "ssd"}, "fast"),
        ({"not_group": "slow,slower"}, "fast"),
        ({"prefer_not_group": "slow"}, "fast"),
        ({"affinity": "web"}, "fast"),
        ({"prefer_affinity": "web"}, "fast"),
        ({"anti_affinity": "db"}, "fast"),
        ({"prefer_anti_affinity": "db"}, "fast"),
        ({"prefer_group": "none"}, "idle"),
    ],
)
def test_each_label_sends_a_vm_where_it_says(labels: dict[str, str], expected: str) -> None:
    mates = {name: value for name, value in labels.items() if name.endswith("affinity")}
    here, there = ([mates], []) if expected == "fast" and "anti" not in str(mates) else ([], [mates])
    fast = host("fast", [vm("f", 0.1, labels=each) for each in here], cpu=0.3, labels=FAST)
    idle = host("idle", [vm("i", 0.1, labels=each) for each in there], cpu=0.1, labels={"groups": "slow"})
    assert target(hot(**labels), idle, fast) == expected


def test_wish_does_not_keep_a_hot_host_hot() -> None:
    found = plan(hot(prefer_group="ssd"), host("idle", cpu=0.1), host("full", cpu=0.7, labels=FAST))
    assert [move.destination.name for move in found.moves] == ["idle"]
    assert found.moves[0].why_destination.endswith("; not as preferred: it is not in group ssd")


def test_most_wishes_count_before_the_load() -> None:
    wishes = {"prefer_group": "ssd", "prefer_anti_affinity": "db"}
    one = host("one", [vm("x", 0.1, labels={"prefer_anti_affinity": "db"})], cpu=0.1, labels=FAST)
    assert target(hot(**wishes), host("idle", cpu=0.1), one, host("both", cpu=0.4, labels=FAST)) == "both"


def test_rule_that_no_host_meets_is_named() -> None:
    assert "it is not in group ssd" in why_not(hot(group="ssd"), host("idle", cpu=0.1))
    slow = host("idle", cpu=0.1, labels={"groups": "slow"})
    assert "it is in group slow, which the VM avoids" in why_not(hot(not_group="slow"), slow)


def test_affinity_keeps_vms_together() -> None:
    pair = [vm("a", 2.0, labels={"affinity": "web"}), vm("b", 5.8, labels={"affinity": "web", "pinned": "1"})]
    assert "b of affinity web is on hot" in why_not(host("hot", pair), host("idle", cpu=0.1))


def test_vms_of_one_affinity_leave_maintenance_together() -> None:
    pair = [vm(name, 1.0, labels={"affinity": "web"}) for name in "ab"]
    old = host("old", pair, labels={"maintenance": "1"})
    found = plan(old, host("one", cpu=0.1), host("two", cpu=0.11))
    assert {move.destination.name for move in found.moves} == {"one"}
    assert len(found.moves) == 2
