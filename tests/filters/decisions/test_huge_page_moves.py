"""Moves between hosts with huge pages: a VM goes only where the memory is that it lies in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.config.decisions import Decisions, Policy
from acquisition.model.derived import DERIVED, MEMORY
from filters.decisions import hugepages, ratios
from filters.decisions.constraints import projection
from filters.decisions.deciding import judge_all
from filters.decisions.method import method_of
from filters.decisions.migrations import Migrations
from filters.decisions.picture import Host, Reading, Vm
from filters.decisions.plan import Proposals, propose
from tests.support.pictures import GIB, constant, host, picture, reading, vm

NONE = (0.0, 0.0, 0.0)
Pages = tuple[float, float, float]  #: GiB in all, free, reserved


def pages(two: Pages = NONE, one: Pages = NONE, others: Pages = NONE) -> dict[str, Reading]:
    """The figures of huge pages of 2 MiB, 1 GiB and other sizes."""
    sizes = two, one, others
    values = {
        "hugepages_total_bytes": sum(total for total, _, _ in sizes),
        "hugepages_available_bytes": sum(free - reserved for _, free, reserved in sizes),
    }
    for name, each in (("2m", two), ("1g", one)):
        columns = zip(("total", "free", "reserved"), each, strict=True)
        values |= {f"hugepages_{name}_{column}_bytes": value for column, value in columns}
    return {name: constant(name, value * GIB) for name, value in values.items()}


def backed(name: str = "a", gib: float = 4.0, cores: float = 2.0) -> Vm:
    return vm(name, cores, gib, labels={"hugepages": "yes"})


def hot(*vms: Vm, **sizes: Pages) -> Host:
    """A host with 64 GiB that gives away its first VM."""
    there = [*vms, vm("stays", 7.2 - sum(each.readings["cpu_ratio"].mean or 0.0 for each in vms), 1)]
    stays = there[-1]._replace(labels={"pinned": "yes"})
    return host("hot", [*there[:-1], stays], memory=0.5, extra=pages(**sizes) if sizes else {})


def cool(name: str = "idle", available: float = 32.0, **sizes: Pages) -> Host:
    """An idle host of 64 GiB with so much memory available beside its huge pages."""
    extra = {"memory_available_bytes": constant("memory_available_bytes", available * GIB), **pages(**sizes)}
    made = host(name, cpu=0.1, extra=extra)
    used = ratios.of_host(MEMORY, made.readings)
    assert used is not None
    return made._replace(readings={**made.readings, MEMORY: constant(MEMORY, used.mean or 0.0)})


def plan(*hosts: Host, moves_per_host: int = 1) -> Proposals:
    counted: dict[str, Any] = {"high": 0.8, "low": 0.8, "enter": None, "k": 3, "n": 5, "plateau": None}
    policy = replace(Policy(moves_per_host=moves_per_host), margin=0.01)
    how = method_of(Decisions(rule="threshold", policy=policy, parameters={"threshold": counted}))
    seen = picture(*hosts)
    return propose(seen, judge_all(seen, how.rule, how.parameters), how, Migrations())


def places(found: Proposals) -> dict[str, str]:
    return {move.vm.name: move.destination.name for move in found.moves}


def refusal(found: Proposals, name: str = "a") -> str:
    return next(each.reason for each in found.refusals if each.vm is not None and each.vm.name == name)


def test_free_huge_pages_count_as_available() -> None:
    used = ratios.of_host(MEMORY, cool(available=4.0, two=(56, 50, 2)).readings)
    assert used is not None
    assert used.mean == pytest.approx(1 - (4 + 48) / 64)


def test_missing_figures_of_huge_pages_change_nothing() -> None:
    parts = cool(available=16.0).readings
    missing = reading("hugepages_available_bytes", validity="MISSING", stale_seconds=None)
    plain = {name: each for name, each in parts.items() if not name.startswith("hugepages")}
    for readings in (plain, {**plain, missing.metric: missing}):
        used = ratios.of_host(MEMORY, readings)
        assert used is not None
        assert used.mean == 0.75
        assert used.validity == "VALID"


def test_vm_in_huge_pages_goes_where_such_pages_are_free() -> None:
    found = plan(hot(backed(), two=(32, 0, 0)), cool("none"), cool("pool", 8.0, two=(48, 40, 0)))
    assert places(found) == {"a": "pool"}


def test_ordinary_vm_cannot_have_huge_pages() -> None:
    pool = cool("pool", 4.0, two=(56, 56, 0))
    assert ratios.of_host(MEMORY, pool.readings).mean < 0.1  # type: ignore[union-attr,operator]
    found = plan(hot(vm("a", 2.0, 4)), pool)
    assert "pool: memory use outside huge pages would be 1, above 0.85" in refusal(found)
    assert places(plan(hot(vm("a", 2.0, 4)), cool("roomy", 30.0, two=(32, 0, 0)))) == {"a": "roomy"}


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ({}, "it has no huge pages, which the VM's memory requires"),
        ({"two": (48, 3.9, 0)}, "the VM needs 4096 MiB of huge pages of 2 MiB, 3994 MiB are free"),
        ({"two": (48, 20, 17)}, "the VM needs 4096 MiB of huge pages of 2 MiB, 3072 MiB are free"),
        ({"one": (48, 48, 0)}, "the VM needs 4096 MiB of huge pages of 2 MiB, 0 MiB are free"),
        ({"others": (48, 48, 0)}, "the VM needs 4096 MiB of huge pages of 2 MiB, 0 MiB are free"),
    ],
)
def test_destination_without_enough_such_pages_says_why(there: dict[str, Pages], words: str) -> None:
    found = plan(hot(backed(), two=(32, 0, 0)), cool("idle", 12.0, **there))
    assert not found.moves
    assert f"idle: {words}" in refusal(found)


def test_sizes_that_the_vm_may_use_must_all_be_there() -> None:
    both = {"two": (16.0, 0.0, 0.0), "one": (16.0, 0.0, 0.0)}
    assert "huge pages of 1 GiB, 0 MiB" in refusal(plan(hot(backed(), **both), cool("idle", 8.0, two=(48, 48, 0))))
    found = plan(hot(backed(), **both), cool("idle", 8.0, two=(24, 24, 0), one=(24, 24, 0)))
    assert places(found) == {"a": "idle"}
    other = hot(backed(), others=(16.0, 0.0, 0.0))
    assert places(plan(other, cool("idle", 8.0, two=(24, 24, 0), others=(24, 24, 0)))) == {"a": "idle"}


@pytest.mark.parametrize(("known", "words"), [("hot", "of the host,"), ("idle", "of the host of the VM,")])
def test_unknown_huge_pages_are_missing(known: str, words: str) -> None:
    hosts = [hot(backed(), two=(32, 0, 0)), cool("idle", 8.0, two=(48, 48, 0))]
    bare = [
        each if each.name == known
        else each._replace(readings={n: r for n, r in each.readings.items() if not n.startswith("hugepages")})
        for each in hosts
    ]  # fmt: skip
    assert f"MISSING: huge pages {words}" in refusal(plan(*bare))


def test_two_vms_do_not_share_the_same_free_pages() -> None:
    vms = [backed("a", 4.0, 0.5), backed("b", 4.0, 0.5)]
    enough = plan(hot(*vms, two=(32, 0, 0)), cool("pool", 14.0, two=(48, 8, 0)), moves_per_host=5)
    assert places(enough) == {"a": "pool", "b": "pool"}
    found = plan(hot(*vms, two=(32, 0, 0)), cool("pool", 14.0, two=(48, 7, 0)), moves_per_host=5)
    assert len(found.moves) == 1


@given(st.floats(1, 16), st.booleans(), st.floats(0, 64), st.floats(0, 64))
def test_a_vm_that_comes_takes_its_memory_once(gib: float, huge: bool, free: float, available: float) -> None:
    before = cool("pool", available, two=(64.0, free, 0.0))
    one = backed("a", gib) if huge else vm("a", 2.0, gib)
    after = projection.with_vm(before, one)
    there = hugepages.pools(after)
    assert there is not None
    assert there["2 MiB"].free == pytest.approx(max(0.0, free - gib * huge) * GIB, abs=1.0)
    left = after.readings["memory_available_bytes"].mean
    assert left == pytest.approx((available - gib * (not huge)) * GIB, abs=1.0)


def test_the_formula_is_one_for_all() -> None:
    how = DERIVED[MEMORY]
    assert how.formula(max, 2.0, 8.0) == how.formula(max, 2.0, 8.0, 0.0) == 0.75
