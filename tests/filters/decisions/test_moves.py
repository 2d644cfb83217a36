"""Proposals: selection, placement, and every constraint that keeps a VM or a host out."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.config.decisions import Decisions, Policy
from acquisition.config.metric_registry import load_checked
from acquisition.errors import ConfigError
from filters.decisions.constraints import projection
from filters.decisions.deciding import decide, judge_all
from filters.decisions.method import Method, method_of
from filters.decisions.migrations import FINISHED, STARTED, Log, Migration, Migrations
from filters.decisions.picture import CPU, DOWN, LATE, MEMORY, NETWORK, Host, Picture, Transit, Vm
from filters.decisions.plan import Move, Proposals, propose
from filters.decisions.verdict import Outcome
from filters.decisions.vm_selection import minimum_migration_time, most_cpu, volume
from tests.support.pictures import GIB, constant, host, inputs, picture, reading, vm


def method(policy: Policy | None = None, **changes: Any) -> Method:
    """By ``threshold`` with 0.8, 3 of 5 and no plateau, a margin of 0.01, least RAM and best fit, unless ``changes``
    say otherwise."""
    counted = {"high": 0.8, "low": 0.8, "enter": None, "k": 3, "n": 5, "plateau": None}
    parameters: dict[str, dict[str, Any]] = {"threshold": counted}
    policy = replace(policy or Policy(moves_per_host=5), margin=0.01)
    chosen = {"rule": "threshold", "selection": "minimum_migration_time", "placement": "best_fit_decreasing"}
    return method_of(Decisions(**{"policy": policy, "parameters": parameters, **chosen, **changes}))


def plan(seen: Picture, how: Method | None = None, log: Migrations | None = None) -> Proposals:
    how = how or method()
    return propose(seen, judge_all(seen, how.rule, how.parameters), how, log or Migrations())


def moves(found: Proposals) -> list[tuple[str, str, str]]:
    return [(move.vm.name, move.source.name, move.destination.name) for move in found.moves]


def reasons(found: Proposals) -> dict[str, str]:
    return {(each.vm or each.host).name: each.reason for each in found.refusals}


def hot_host(vms: Sequence[Vm] | None = None, **changes: Any) -> Host:
    """7.2 of 8 cores are busy: 0.9."""
    return host("hot", vms if vms is not None else [vm("a", 2.0, 4), vm("b", 2.0, 2), vm("c", 3.2, 8)], **changes)


# --- selection ---------------------------------------------------------------------------------------------------


def ranked(worth: Any, *vms: Vm) -> list[str]:
    there = host("h", vms)
    return [each.name for each in sorted(there.vms, key=lambda each: worth(each, there).key, reverse=True)]


def test_minimum_migration_time_takes_the_least_ram_then_the_most_cpu() -> None:
    found = ranked(minimum_migration_time.worth, vm("a", 1, 4), vm("b", 0.5, 2), vm("c", 0.7, 2))
    assert found == ["c", "b", "a"]


def test_most_cpu() -> None:
    assert ranked(most_cpu.worth, vm("a", 1), vm("b", 3), vm("c", 2)) == ["b", "c", "a"]


def test_volume_by_hand() -> None:
    assert volume.volume([0.5, 0.2, 0.0]) == pytest.approx(1 / (0.5 * 0.8))
    assert volume.volume([1.0]) == pytest.approx(1000.0)  # full, and finite
    there = host("h", [vm("a", 4.0, 16.0)])  # 0.5 of the CPU, 0.25 of the memory, 0.0008 of the network
    worth = volume.worth(there.vms[0], there)
    assert worth.key == pytest.approx((1 / (0.5 * 0.9992 * 0.75) / (16 * GIB),))


def test_volume_per_footprint() -> None:
    # the small one has a volume of 1/0.875, the big one of 1/0.5 for eight times the memory
    assert ranked(volume.worth, vm("big", 4, 16), vm("small", 1, 2)) == ["small", "big"]


def test_what_is_missing_is_not_ranked() -> None:
    there = host("h", [vm("a")])
    bare = there.vms[0]._replace(readings={})
    assert minimum_migration_time.worth(bare, there).reason == "MISSING: memory_assigned_bytes"
    assert most_cpu.worth(bare, there).reason == "MISSING: cpu_ratio"
    assert volume.worth(bare, there).reason == f"MISSING: {CPU}, {NETWORK}, {MEMORY}"
    resident = {name: each for name, each in there.vms[0].readings.items() if name != "memory_assigned_bytes"}
    sizeless = bare._replace(readings=resident)
    assert minimum_migration_time.worth(sizeless, there).reason == "MISSING: memory_assigned_bytes"
    worth = minimum_migration_time.worth(sizeless._replace(kind="process"), there)
    assert worth.reason == "least memory_resident_bytes (2048 MiB)"


# --- placement ---------------------------------------------------------------------------------------------------


def test_a_hot_host_gives_as_little_as_it_takes() -> None:
    # 0.9; without b (least RAM) 0.65, which is below low = 0.8
    found = plan(picture(hot_host(), host("idle", cpu=0.1)))
    assert moves(found) == [("b", "hot", "idle")]
    move = found.moves[0]
    assert "0.9 is above 0.8" in move.why_host.reason
    assert move.why_vm.reason == "least memory_assigned_bytes (2048 MiB)"
    figures = {figure.name: figure.value for figure in move.destination_figures}
    assert figures["cpu_busy_ratio now"] == pytest.approx(0.1)
    assert figures["cpu_busy_ratio with the VM"] == pytest.approx(0.35)
    assert all(figure.age_seconds == 0.5 for figure in (*move.why_host.figures[:1], *move.why_vm.figures))


def test_best_fit_and_least_loaded() -> None:
    seen = picture(hot_host(), host("idle", cpu=0.1), host("half", cpu=0.5))
    assert moves(plan(seen)) == [("b", "hot", "half")]  # 0.5 + 0.25 leaves the least
    assert moves(plan(seen, method(placement="least_loaded"))) == [("b", "hot", "idle")]


def test_best_fit_counts_cores_not_ratios() -> None:
    wide = host("wide", cpu=0.6, cores=32.0)  # 12.8 cores free
    narrow = host("narrow", cpu=0.5)  # 4 cores free
    assert moves(plan(picture(hot_host(), wide, narrow))) == [("b", "hot", "narrow")]


def test_the_largest_is_placed_first_and_what_is_placed_counts() -> None:
    one = host("one", [vm("x", 7.2, 2)])
    two = host("two", [vm("y", 4.0, 2), vm("z", 3.2, 1)])
    # from one: x (7.2 cores) fits nowhere but on the empty host; from two: z (3.2), placed after it
    found = plan(picture(one, two, host("large", cpu=0.0, cores=16.0), host("small", cpu=0.0)))
    assert moves(found) == [("x", "one", "large"), ("z", "two", "small")]


def test_the_largest_is_placed_first_whatever_host_is_hotter() -> None:
    # small comes from the hotter host; if it were placed first, it would have tight, and large would not fit beside it
    hotter = host("hotter", [vm("small", 2.0, 1), vm("p", 5.9, 8)])
    warm = host("warm", [vm("large", 3.0, 1), vm("q", 3.6, 8)])
    tight = host("tight", cpu=0.41)  # 0.785 with large, 0.66 with small
    found = plan(picture(hotter, warm, tight, host("wide", cpu=0.39)))
    assert moves(found) == [("large", "warm", "tight"), ("small", "hotter", "wide")]


def test_a_host_that_fills_moves_back_in_the_order() -> None:
    one, two = (host(f"hot{i}", [vm(f"v{i}", 2.0, 2), vm(f"w{i}", 5.2, 8)]) for i in (1, 2))
    seen = picture(one, two, host("a", cpu=0.1), host("b", cpu=0.2))
    found = plan(seen, method(placement="least_loaded"))
    assert moves(found) == [("v1", "hot1", "a"), ("v2", "hot2", "b")]


def test_a_destination_takes_no_more_at_a_time_than_it_may() -> None:
    one, two = (host(f"hot{i}", [vm(f"v{i}", 2.0, 2), vm(f"w{i}", 5.2, 8)]) for i in (1, 2))
    found = plan(picture(one, two, host("a", cpu=0.0, cores=32.0)), method(Policy(moves_per_host=1)))
    assert moves(found) == [("v1", "hot1", "a")]
    assert "a: 1 migration from or to it is in progress or proposed" in reasons(found)["v2"]


def test_arriving_vm_needs_all_memory_leaving_vm_frees_used() -> None:
    half = vm("v", 1.0, 16.0)
    resident = half.readings["memory_resident_bytes"]._replace(mean=8 * GIB)
    there = host("h", [half._replace(readings={**half.readings, "memory_resident_bytes": resident})], memory=0.5)
    (guest,) = there.vms
    assert projection.with_vm(there, guest).readings[MEMORY].mean == pytest.approx(0.5 + 16 / 64)
    left = projection.without_vm(there, guest)
    assert left.readings[MEMORY].mean == pytest.approx(0.5 - 8 / 64)
    assert left.readings[CPU].mean == pytest.approx(0.0)
    assert not left.vms


def test_a_projected_reading_is_higher_in_all_that_is_a_level() -> None:
    before = constant(CPU, 0.5, inputs=inputs(median=0.5, q1=0.4, q3=0.6, mad=0.1, cusum=0.2, above=1))
    after = projection.shift(before, 0.25)
    assert (after.mean, after.last, after.recent[0], after.recent_means[-1]) == (0.75, 0.75, 0.75, 0.75)
    assert after.inputs == inputs(median=0.75, q1=0.65, q3=0.85, mad=0.1, cusum=0.2, above=0)
    assert projection.shift(before, 0.35).inputs == inputs(
        median=0.85, q1=0.75, q3=0.95, mad=0.1, cusum=0.2, above=5
    )  # 0.85 is above the threshold of 0.8, so all of the five that are counted would be


def test_a_figure_that_is_long_stale_is_missing() -> None:
    assert most_cpu.worth(_stale(4.0), host("h")).key is not None  # 3 s and the interval of 1 s
    assert most_cpu.worth(_stale(4.1), host("h")).reason == "MISSING: cpu_ratio"


def _stale(seconds: float) -> Vm:
    return vm("v")._replace(readings={"cpu_ratio": constant("cpu_ratio", 1.0, stale_seconds=seconds)})


def test_headroom_and_a_rule_that_would_call_it_hot() -> None:
    # 0.62 + 0.25 = 0.87: above 1 - 0.15, and above high = 0.85
    full = picture(hot_host(), host("busy", cpu=0.62))
    assert "cpu_busy_ratio would be 0.87, above 0.85" in reasons(plan(full))["b"]
    generous = method(Policy(moves_per_host=5, headroom=0.05))
    assert "it would become hot" in reasons(plan(full, generous))["b"]
    memory = picture(hot_host(), host("busy", cpu=0.1, memory=0.84))
    assert "memory_used_ratio would be 0.871, above 0.85" in reasons(plan(memory))["b"]


def test_a_vm_without_a_place_makes_room_for_the_next() -> None:
    # b and a need 0.25 of the CPU and do not fit; the last one that is tried is smaller
    vms = [vm("b", 2.0, 2), vm("a", 2.0, 4), vm("s", 1.6, 8), vm("t", 1.6, 16)]
    found = plan(picture(hot_host(vms), host("busy", cpu=0.59)))
    assert moves(found) == [("s", "hot", "busy")]
    assert set(reasons(found)) >= {"a", "b"}


# --- hosts that take nothing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (host("other", cpu=0.1, state=LATE), "other: it is late"),
        (host("other", cpu=0.1, state=DOWN), "other: it is down"),
        (host("other", cpu=0.1, labels={"cordoned": "true"}), "other: it is cordoned"),
        (host("other", cpu=0.95), "other: it is hot"),
        (host("other", cpu=0.1, extra={CPU: constant(CPU, 0.1, stale_seconds=9.0)}), "other: the rule abstains"),
        (host("other", cpu=0.1, extra={MEMORY: constant(MEMORY, 0.1, stale_seconds=None)}), "MISSING: memory_used"),
        (
            host("other", cpu=0.1, extra={"cpu_count": constant("cpu_count", 8, stale_seconds=None)}),
            "MISSING: its capacity",
        ),
    ],
    ids=["late", "down", "cordoned", "hot", "abstains", "memory", "cores"],
)
def test_hosts_that_take_nothing(other: Host, words: str) -> None:
    found = plan(picture(hot_host(), other))
    assert not found.moves
    assert words in reasons(found)["b"]


def test_a_label_that_says_no_is_none() -> None:
    assert plan(picture(hot_host(), host("idle", cpu=0.1, labels={"cordoned": "false"}))).moves


def test_groups_and_anti_affinity() -> None:
    grouped = hot_host([vm("b", 3.0, 2, labels={"group": "gold"}), vm("c", 4.2, 8)])
    plain, gold = host("plain", cpu=0.1), host("gold", cpu=0.1, labels={"groups": "silver, gold"})
    assert moves(plan(picture(grouped, plain, gold))) == [("b", "hot", "gold")]
    assert "plain: it is not in group gold" in reasons(plan(picture(grouped, plain)))["b"]

    rival = hot_host([vm("b", 3.0, 2, labels={"anti_affinity": "db"}), vm("c", 4.2, 8)])
    taken = host("taken", [vm("d", 1.0, 2, labels={"anti_affinity": "db"})])
    assert "taken: d of anti-affinity db is there" in reasons(plan(picture(rival, taken)))["b"]
    assert moves(plan(picture(rival, taken, host("free", cpu=0.0)))) == [("b", "hot", "free")]


def test_anti_affinity_holds_between_proposals_of_one_plan() -> None:
    together = {"anti_affinity": "db"}
    one = host("one", [vm("x", 2.0, 1, labels=together), vm("p", 5.2, 8)])
    two = host("two", [vm("y", 2.0, 1, labels=together), vm("q", 5.2, 8)])
    found = plan(picture(one, two, host("large", cpu=0.1, cores=32.0)))
    assert moves(found) == [("x", "one", "large"), ("q", "two", "large")]
    assert "large: x of anti-affinity db is there" in reasons(found)["y"]


# --- VMs that stay -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": {"pinned": "yes"}}, "it is pinned"),
        ({"labels": {"local": "yes"}}, "its id is valid on its host only"),
        ({"migrating": True}, "it is migrating"),
        ({"state": LATE}, "it is late"),
        ({"observed_seconds": 12.0}, "WARMING: observed for 12 of 30 s"),
        ({"observed_seconds": None}, "MISSING: start of its observation"),
    ],
)
def test_vms_that_stay(changes: dict[str, Any], words: str) -> None:
    only = vm("b", 7.2, 2)._replace(**changes)
    found = plan(picture(hot_host([only]), host("idle", cpu=0.0, cores=32.0)))
    assert not found.moves
    assert reasons(found)["b"].startswith(words)
    assert reasons(found)["hot"].startswith(f"none of its VMs can be moved now: moving b ({words}")


def test_a_vm_whose_window_is_not_full_stays() -> None:
    only = vm("b", 7.2, 2)
    cpu = only.readings["cpu_ratio"]._replace(inputs=inputs(valid=7, warming=True))
    found = plan(
        picture(hot_host([only._replace(readings={**only.readings, "cpu_ratio": cpu})]), host("idle", cpu=0.0))
    )
    assert reasons(found)["b"] == "WARMING: 7 of 30 values of cpu_ratio"


def test_a_vm_that_relieves_nothing_stays() -> None:
    found = plan(picture(hot_host([vm("tiny", 0.01, 1), vm("c", 7.19, 8)]), host("idle", cpu=0.0, cores=32.0)))
    assert moves(found) == [("c", "hot", "idle")]
    assert reasons(found)["tiny"] == "it has 0.12% of the host's CPU, less than 1.00%"


@pytest.mark.parametrize("selection", ["minimum_migration_time", "most_cpu", "volume"])
@pytest.mark.parametrize("resources", [[CPU, MEMORY], [CPU]])
def test_vm_of_unknown_size_is_never_given_a_destination(selection: str, resources: list[str]) -> None:
    only = vm("b", 7.2, 2)
    readings = {name: each for name, each in only.readings.items() if name != "memory_assigned_bytes"}
    how = method(Policy(moves_per_host=5, resources=resources), selection=selection)
    seen = picture(hot_host([only._replace(readings=readings)]), host("idle", cpu=0.0, cores=32.0))
    found = plan(seen, how)
    assert moves(found) == []
    assert reasons(found)["b"] == "MISSING: its size (memory_assigned_bytes)"
    process = only._replace(readings=readings, kind="process")
    assert moves(plan(picture(hot_host([process]), host("idle", cpu=0.0, cores=32.0)), how)) == [("b", "hot", "idle")]


# --- migrations that are reported --------------------------------------------------------------------------------


def log(**newest: Migration) -> Migrations:
    return Migrations({each.vm: each for each in newest.values()})


def test_a_vm_on_its_way_stays_and_its_load_counts_at_its_destination() -> None:
    under_way = log(b=Migration("uuid-b", "hot", "busy", 990.0, None, STARTED))
    seen = picture(hot_host([vm("b", 1.2, 2), vm("c", 5.0, 8)], cpu=1.0), host("busy", cpu=0.1), host("other", cpu=0.7))
    found = plan(seen, log=under_way)
    assert reasons(found)["b"] == "it is migrating to busy"
    # without b the host is still hot (0.85); c would fit on busy (0.1 + 0.625), but not beside b
    assert "busy: cpu_busy_ratio would be 0.875" in reasons(found)["c"]


def test_host_with_leaving_vms_gives_only_what_is_needed() -> None:
    # 0.9; without a, which is under way, 0.65, which is below low = 0.8
    idle = [host("idle", cpu=0.1), host("idler", cpu=0.05)]
    under_way = log(a=Migration("uuid-a", "hot", "idle", 990.0, None, STARTED))
    seen_to_move = picture(hot_host([vm("a", 2.0, 4, migrating=True), vm("b", 2.0, 2), vm("c", 3.2, 8)]), *idle)
    for found in (
        plan(picture(hot_host(), *idle), log=under_way),
        plan(seen_to_move._replace(transits=(Transit("uuid-a", "hot", "idle", "hot"),)), log=under_way),
    ):
        assert moves(found) == []
        assert reasons(found)["hot"] == "VMs already leaving relieve it"
        assert reasons(found)["a"].startswith("it is migrating")
    claimed = plan(seen_to_move._replace(transits=(Transit("uuid-a", "hot", "idle", "hot"),)))
    assert moves(claimed)  # any host may claim a VM: only a report is believed of where it leaves
    assert reasons(claimed)["a"] == "it is migrating"


def test_a_host_that_awaits_a_vm_of_unknown_load_takes_nothing() -> None:
    bare = vm("a", 2.0, 4)
    bare = bare._replace(readings={name: each for name, each in bare.readings.items() if name != "cpu_ratio"})
    under_way = log(a=Migration("uuid-a", "cool", "idle", 990.0, None, STARTED))
    found = plan(picture(hot_host(), host("cool", [bare], cpu=0.3), host("idle", cpu=0.1)), log=under_way)
    assert ("b", "hot", "idle") not in moves(found)
    gone = plan(picture(hot_host(), host("idle", cpu=0.1)), log=under_way)  # its host is not heard of
    assert "idle: MISSING: the load of uuid-a, which is migrating to it" in reasons(gone)["b"]
    there = host("idle", [vm("a", 0.8, 4)])  # it has arrived, and what it takes is measured
    assert moves(plan(picture(hot_host([vm("x", 2.0, 2), vm("y", 5.2, 8)]), there), log=under_way))


def test_what_two_hosts_report_counts_as_well() -> None:
    seen = picture(hot_host([vm("b", 1.2, 2, migrating=True), vm("c", 5.0, 8)], cpu=1.0), host("busy", cpu=0.1))
    found = plan(seen._replace(transits=(Transit("uuid-b", "hot", "busy", "hot"),)))
    assert "busy: cpu_busy_ratio would be 0.875" in reasons(found)["c"]


def test_the_limit_of_concurrent_moves_counts_those_in_progress() -> None:
    under_way = log(x=Migration("uuid-x", "elsewhere", "hot", 990.0, None, STARTED))
    found = plan(picture(hot_host(), host("idle", cpu=0.0)), method(Policy(moves_per_host=1)), under_way)
    assert reasons(found)["hot"] == "1 migration from or to it is in progress or proposed"
    assert moves(plan(picture(hot_host(), host("idle", cpu=0.0)), method(Policy(moves_per_host=2)), under_way))


def test_a_migration_that_never_ends_is_given_up_on() -> None:
    forgotten = log(b=Migration("uuid-b", "hot", "idle", 100.0, None, STARTED))  # 900 s ago
    found = plan(picture(hot_host(), host("idle", cpu=0.0)), log=forgotten)
    assert reasons(found)["b"] == ("its migration timed out without a reported end 300 s ago, the cool-down is 600 s")


def test_cool_down_and_settling() -> None:
    seen = picture(hot_host(), host("idle", cpu=0.0))
    lately = log(b=Migration("uuid-b", "elsewhere", "hot", 700.0, 800.0, FINISHED))
    assert moves(plan(seen, log=lately)) == [("a", "hot", "idle")]  # b has just come
    just_now = log(b=Migration("uuid-b", "elsewhere", "hot", 900.0, 995.0, FINISHED))
    assert reasons(plan(seen, log=just_now))["hot"] == (
        "a migration from or to it ended 6 s ago, settling takes 12 s"
    )  # 1000.5 - 995
    failed = log(b=Migration("uuid-b", "hot", "elsewhere", 900.0, 996.5, "failed"))
    assert reasons(plan(seen, log=failed))["b"] == "its migration failed 4 s ago, the cool-down is 600 s"
    failed = log(x=Migration("uuid-x", "idle", "elsewhere", 900.0, 995.0, "failed"))
    assert plan(seen, log=failed).moves  # a host that nothing left has nothing to settle


# --- hysteresis and limits ---------------------------------------------------------------------------------------


def test_hysteresis_goes_in_and_comes_out() -> None:
    lower = {"high": 0.8, "low": 0.7, "enter": None, "k": 3, "n": 5, "plateau": None}
    how = method(parameters={"threshold": lower})
    first = judge_all(picture(host("h", cpu=0.9)), how.rule, how.parameters)
    assert first.hot == {"h"}
    for state, kept in ((LATE, {"h"}), (DOWN, set())):
        heat = judge_all(picture(host("h", cpu=0.9, state=state)), how.rule, how.parameters, first.hot)
        assert heat.verdicts["h"].outcome == Outcome.ABSTAINED
        assert heat.hot == kept
    less = picture(host("h", extra={CPU: reading(CPU, [0.9, 0.7, 0.7, 0.7, 0.75])}))
    again = judge_all(less, how.rule, how.parameters, first.hot)
    assert again.verdicts["h"].outcome == Outcome.HOT
    assert judge_all(less, how.rule, how.parameters).hot == set()


def test_proposals_are_limited_in_all() -> None:
    hosts = [host(f"hot{i}", [vm(f"v{i}", 2.0, 2), vm(f"w{i}", 5.2, 8)]) for i in range(5)]
    seen = picture(*hosts, *(host(f"idle{i}", cpu=0.0) for i in range(5)))
    assert len(plan(seen).moves) == 5
    assert len(plan(seen, method(Policy(moves=3))).moves) == 3


def test_nobody_hot_nothing_moves() -> None:
    assert plan(picture(host("a", cpu=0.5), host("b", cpu=0.1)))[:2] == ((), ())


def test_an_unknown_rule_or_parameter_is_told_with_its_key() -> None:
    for changes, words in (
        ({"rule": "treshold"}, "key decisions.rule: unknown rule 'treshold'; did you mean threshold?"),
        ({"selection": "x"}, "key decisions.selection: unknown selection 'x'; expected one of minimum_migration_time"),
        ({"placement": "best_fit"}, "unknown placement 'best_fit'; expected one of best_fit_decreasing, least_loaded"),
        ({"parameters": {"cusm": {}}}, "key decisions.parameters: unknown rule 'cusm'; did you mean cusum?"),
        ({"parameters": {"threshold": {"hi": 1}}}, "key decisions.parameters.threshold.hi: unknown key"),
        ({"parameters": {"threshold": {"high": 2}}}, "key decisions.parameters.threshold: expected `float` <= 1.0"),
        ({"parameters": {"threshold": {"high": 0.2, "low": 0.7}}}, "low 0.7 exceeds high 0.2"),
    ):
        with pytest.raises(Exception, match=r".*") as caught:
            method(**changes)
        assert words in str(caught.value)
    assert method(parameters={"threshold": {"high": 0.9}}).parameters.high == 0.9  # type: ignore[attr-defined]


def test_a_file_that_names_an_unknown_rule_is_refused_by_every_reader(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text('[decisions]\nrule = "cusm"\n')
    with pytest.raises(ConfigError, match=r"my.toml: key decisions.rule: unknown rule 'cusm'; did you mean cusum\?"):
        load_checked(str(path))
    path.write_text('[decisions.parameters.cusum]\nlimit = 1\n[decisions.hosts."a*"]\ncordoned = true\n')
    assert load_checked(str(path)).decisions.hosts == {"a*": {"cordoned": True}}


# --- any data center ---------------------------------------------------------------------------------------------

VMS = st.lists(
    st.tuples(st.floats(0, 6), st.sampled_from([1.0, 2.0, 8.0]), st.sampled_from(["", "a", "b"]), st.booleans()),
    max_size=6,
)
HOSTS = st.lists(
    st.tuples(VMS, st.sampled_from([4.0, 8.0, 32.0]), st.sampled_from(["current", "late", "down"])), max_size=8
)


@given(HOSTS, st.sampled_from(["best_fit_decreasing", "least_loaded"]), st.integers(1, 3), st.floats(0, 0.5))
@settings(max_examples=60, deadline=None)
def test_no_plan_breaks_a_promise(drawn: Any, placement: str, per_host: int, headroom: float) -> None:
    hosts = []
    for number, (vms, cores, state) in enumerate(drawn):
        made = [
            vm(f"{number}-{i}", cpu, gib, labels={"anti_affinity": key, "pinned": str(pinned)})
            for i, (cpu, gib, key, pinned) in enumerate(vms)
        ]
        hosts.append(host(f"h{number}", made, cores=cores, state=state))
    seen = picture(*hosts)
    how = method(Policy(moves_per_host=per_host, headroom=headroom), placement=placement)
    found = plan(seen, how)
    heat = judge_all(seen, how.rule, how.parameters)
    load = {each.name: (each.readings[CPU].mean or 0.0) * (each.readings["cpu_count"].mean or 0.0) for each in hosts}
    count = dict.fromkeys(load, 0)
    keys = {each.name: [one.labels["anti_affinity"] for one in each.vms] for each in hosts}
    assert len({move.vm.id for move in found.moves}) == len(found.moves)
    for move in found.moves:
        source, destination = move.source.name, move.destination.name
        assert heat.verdicts[source].outcome == Outcome.HOT
        assert heat.verdicts[destination].outcome != Outcome.HOT
        assert move.destination.state == "current"
        assert move.vm.labels["pinned"] != "True"
        key = move.vm.labels["anti_affinity"]
        assert not key or key not in keys[destination]
        keys[destination].append(key)
        cores = move.destination.readings["cpu_count"].mean or 0.0
        load[destination] += move.vm.readings["cpu_ratio"].mean or 0.0
        assert load[destination] <= cores * min(1 - headroom, 0.8) + 1e-6
        for name in (source, destination):
            count[name] += 1
            assert count[name] <= per_host
    assert msgspec.json.encode([move.vm.name for move in found.moves])


@given(HOSTS, st.lists(st.tuples(*[st.integers(0, 7)] * 3), max_size=4), st.integers(1, 3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_plan_forgets_what_is_under_way(drawn: Any, going: Any, per_host: int, reported: bool) -> None:
    hosts = [
        host(f"h{number}", [vm(f"{number}-{i}", cpu, gib) for i, (cpu, gib, _, _) in enumerate(vms)], cores=cores)
        for number, (vms, cores, _) in enumerate(drawn)
    ]
    under_way: dict[str, Migration] = {}
    for source, which, target in going if hosts else ():
        place, there = hosts[source % len(hosts)], hosts[target % len(hosts)]
        if place.vms and place is not there:
            one = place.vms[which % len(place.vms)]
            under_way[one.id] = Migration(one.id, place.name, there.name, 999.0, None, STARTED)
    transits = tuple(Transit(each.vm, each.source, each.destination, each.source) for each in under_way.values())
    if reported:
        found = plan(picture(*hosts), method(Policy(moves_per_host=per_host)), Migrations(under_way))
    else:
        seen = [
            each._replace(vms=tuple(one._replace(migrating=one.id in under_way) for one in each.vms)) for each in hosts
        ]
        found = plan(picture(*seen)._replace(transits=transits), method(Policy(moves_per_host=per_host)))
    cores = {each.name: each.readings["cpu_count"].mean or 0.0 for each in hosts}
    load = {each.name: (each.readings[CPU].mean or 0.0) * cores[each.name] for each in hosts}
    count = dict.fromkeys(load, 0)
    by_id = {one.id: one for each in hosts for one in each.vms}
    for each in transits:
        load[each.destination] += by_id[each.vm].readings["cpu_ratio"].mean or 0.0
        count[each.source] += reported  # what is seen alone, any host may say of a VM of another
        count[each.destination] += 1
    for move in found.moves:
        assert move.vm.id not in under_way
        load[move.destination.name] += move.vm.readings["cpu_ratio"].mean or 0.0
        assert load[move.destination.name] <= cores[move.destination.name] * 0.8 + 1e-6
        for name in (move.source.name, move.destination.name):
            count[name] += 1
            assert count[name] <= per_host


def test_where_a_vm_has_no_place_the_next_host_has_its_turn() -> None:
    one = host("one", [vm("x", 7.2, 2)])  # fits nowhere
    two = host("two", [vm("y", 4.0, 8), vm("z", 3.2, 1)])
    found = plan(picture(one, two, host("small", cpu=0.1)), method(Policy(moves_per_host=5, moves=1)))
    assert moves(found) == [("z", "two", "small")]


def test_a_host_without_memory_is_relieved_of_memory() -> None:
    hot = host("hot", [vm("idle", 0.01, 20), vm("tiny", 3.0, 0.5)], memory=0.95)
    by_memory = {"threshold": {"metric": MEMORY, "high": 0.85, "low": 0.75, "k": 3, "n": 5}}
    found = plan(picture(hot, host("empty", cpu=0.1)), method(parameters=by_memory))
    assert moves(found) == [("idle", "hot", "empty")]
    assert reasons(found)["tiny"] == "it has 0.78% of the host's memory, less than 1.00%"


def test_a_long_log_of_migrations_costs_little() -> None:
    ended = {f"v{i}": Migration(f"v{i}", f"h{i % 3000}", f"h{(i + 1) % 3000}", 1.0, 2.0, FINISHED) for i in range(6000)}
    hosts = [hot_host(), *(host(f"h{i}", cpu=0.5) for i in range(3000))]
    seen = picture(*hosts)
    how = method()
    heat = judge_all(seen, how.rule, how.parameters)
    began = time.process_time()
    propose(seen, heat, how, Migrations(ended), 1000.0)
    assert time.process_time() - began < 1.0  # seconds; each host looking through the log takes several


def test_vm_with_missing_rule_metric_is_not_moved() -> None:
    known = vm("a", 2.0, 4)
    readings = {name: each for name, each in known.readings.items() if not name.startswith("network")}
    hot = hot_host([known._replace(readings=readings), vm("c", 5.2, 8)])
    found = plan(picture(hot, host("idle", cpu=0.1)), method(rule="sandpiper", selection="minimum_migration_time"))
    assert "idle: MISSING: network_used_ratio of the VM, required by the rule" in reasons(found)["a"]
    assert ("a", "hot", "idle") not in moves(found)


# --- moves that help, destinations that stay well, proposals that last -------------------------------------------


@pytest.mark.parametrize("placement", ["best_fit_decreasing", "least_loaded"])
@pytest.mark.parametrize("headroom", [0.0, 0.15])
def test_no_destination_ends_above_low_less_the_margin(placement: str, headroom: float) -> None:
    policy = Policy(headroom=headroom, resources=["memory_used_ratio"])
    shipped = method_of(Decisions(placement=placement, policy=policy))
    hot = host("hot", [vm("a", 1.0, 4), vm("b", 6.7, 2)], extra={CPU: constant(CPU, 0.96)})
    refused = reasons(plan(picture(hot, host("near", cpu=0.63)), shipped))["a"]
    assert "(near: cpu_busy_ratio would be 0.755, less than 0.05 below the cool level 0.8); near lacks" in refused
    assert moves(plan(picture(hot, host("near", cpu=0.62)), shipped)) == [("a", "hot", "near")]


@pytest.mark.parametrize(
    ("rule", "parameters", "cool"),
    [
        ("threshold", {"low": 0.7}, 0.7),
        ("sandpiper", {"threshold": 0.75}, 0.75),
        ("neat_regression", {"safety": 1.25}, 0.8),
        ("cusum", {"level": 0.6}, 0.6),
        ("cusum", {}, None),
        ("neat_mad", {}, None),
    ],
)
def test_what_each_rule_calls_cool(rule: str, parameters: dict[str, Any], cool: float | None) -> None:
    assert method(rule=rule, parameters={rule: parameters}).parameters.cool == cool


def test_a_margin_is_kept_to_the_limit_of_a_rule_without_a_cool_level() -> None:
    spread = {"window": 4, "safety": 1.0}  # a constant has none: hot from 1.0 on
    how = method(Policy(headroom=0.0), rule="neat_mad", parameters={"neat_mad": spread})
    hot = host("hot", [vm("a", 2.0, 4), vm("b", 6.0, 8)])
    assert "it would become hot" in reasons(plan(picture(hot, host("near", cpu=0.745)), how))["a"]
    assert moves(plan(picture(hot, host("near", cpu=0.73)), how)) == [("a", "hot", "near")]


def network(metric: float | None, traffic: float | None = 0.03) -> tuple[Host, Host]:
    """A hot host whose only VM that may move has this traffic, and one whose network is used so far (ratios)."""
    talker = vm("talker", 2.0, 1)
    received = "network_receive_bytes_per_second"
    known = {received: constant(received, (traffic or 0.0) * 1.25e9, stale_seconds=None if traffic is None else 0.0)}
    talker = talker._replace(readings={**talker.readings, **known})
    there = host("there", cpu=0.3, extra={} if metric is None else {NETWORK: constant(NETWORK, metric)})
    if metric is None:
        there = there._replace(readings={name: each for name, each in there.readings.items() if name != NETWORK})
    return hot_host([talker, vm("rest", 5.8, 1, labels={"pinned": "1"})]), there


@pytest.mark.parametrize(("used", "traffic"), [(0.83, 0.03), (0.86, None)])
def test_a_destination_keeps_headroom_of_the_network(used: float, traffic: float | None) -> None:
    refused = reasons(plan(picture(*network(used, traffic)), method_of(Decisions())))["talker"]
    assert refused == (
        "no host can take it (there: network_used_ratio would be 0.86, above 0.85); "
        "there lacks least: 0.01 of network_used_ratio"
    )
    assert moves(plan(picture(*network(used - 0.02, traffic)), method_of(Decisions()))) == [("talker", "hot", "there")]


@pytest.mark.parametrize(("extra", "words"), [({NETWORK: 0.87}, "network 92%"), ({MEMORY: 0.9}, "memory 97% used")])
def test_the_margin_is_kept_to_each_limit_of_contention(extra: dict[str, float], words: str) -> None:
    hot, _ = network(0.0, 0.0)
    near = host("near", cpu=0.1, extra={name: constant(name, value) for name, value in extra.items()})
    refused = reasons(plan(picture(hot, near), method_of(Decisions(policy=Policy(headroom=0.0)))))["talker"]
    assert f"near: it would become hot with {0.05} more: {words}" in refused


def test_a_network_that_is_missing_refuses_only_where_it_is_required() -> None:
    unknown = picture(*network(None))
    (move,) = plan(unknown, method_of(Decisions())).moves
    assert "network of there is MISSING and was not checked" in move.cost.reason
    required = Policy(resources=[CPU, MEMORY, NETWORK])
    refused = reasons(plan(unknown, method_of(Decisions(policy=required))))["talker"]
    assert "there: MISSING: network_used_ratio of the host or of the VM" in refused


def test_useless_move_is_not_proposed_and_remedy_is_named() -> None:
    idle, how = host("idle", cpu=0.1), method_of(Decisions())
    own = host("own", [vm("small", 0.08, 2)], cpu=0.995)
    found = plan(picture(own, idle), how)
    assert not found.moves
    assert reasons(found) == {
        "own": "moving all of its movable VMs (1) would not help, cpu_busy_ratio would be 0.985: 0.985 of "
        "its cpu_busy_ratio is not caused by VMs and would have to be reduced"
    }
    pinned = host("hot", [vm("small", 0.08, 2), vm("large", 7.88, 2, labels={"pinned": "true"})])
    assert reasons(plan(picture(pinned, idle), how))["hot"].endswith(
        "cpu_busy_ratio would be 0.985: moving large (it is pinned) would help"
    )
    bare = plan(picture(host("bare", cpu=0.97), idle), how)
    assert reasons(bare)["bare"] == "it has no VMs: only reducing its own load would help"
    dark = host("hot", [vm("dark")], cpu=0.97)
    dark = dark._replace(vms=[each._replace(readings={}) for each in dark.vms])
    assert "the share of 1 of its VMs" in reasons(plan(picture(dark, idle), how))["hot"]


def test_where_the_large_one_fits_nowhere_the_small_one_stays_too() -> None:
    hot = host("hot", [vm("large", 7.0, 2), vm("small", 0.2, 2), vm("other", 0.2, 2)], cpu=0.975)
    found = plan(picture(hot, host("half", cpu=0.5)), method_of(Decisions()))
    assert not found.moves
    assert "moving large (no host can take it (half: cpu_busy_ratio would be" in reasons(found)["hot"]


def test_the_rise_that_cusum_tells_is_moved_though_no_level_ends_it() -> None:
    risen = constant(CPU, 0.9, inputs=inputs(cusum=0.9))
    seen = picture(host("hot", [vm("a", 1.0, 2)], extra={CPU: risen}), host("idle", cpu=0.1))
    assert moves(plan(seen, method(rule="cusum"))) == [("a", "hot", "idle")]


def noisy(seed: int, hot: int = 8, cool: int = 12) -> Picture:
    """Hosts whose figures differ a little from picture to picture: the situation is the same."""
    chance = random.Random(seed)

    def some(name: str, cores: float) -> Host:
        guests = [vm(f"{name}-{i}", cores * chance.uniform(0.97, 1.03), 2 + i % 2) for i in range(4)]
        return host(name, guests)

    return picture(*(some(f"hot{i}", 1.9) for i in range(hot)), *(some(f"cool{i}", 0.6) for i in range(cool)))


@pytest.mark.parametrize("selection", ["most_cpu", "minimum_migration_time", "volume"])
@pytest.mark.parametrize("placement", ["least_loaded", "best_fit_decreasing"])
def test_proposals_of_an_unchanged_situation_stay(selection: str, placement: str) -> None:
    how = method_of(Decisions(selection=selection, placement=placement))
    hot, before, said = frozenset[str](), tuple[Move, ...](), []
    for tick in range(10):
        made = decide(noisy(tick), how, Log(Migrations(), 1000.0), hot, before)
        assert made.plan is not None
        hot, before = made.heat.hot, made.plan.moves
        said.append(set(moves(made.plan)))
    assert len(said[0]) == 8
    assert all(each == said[0] for each in said)
    alone = [set(moves(plan(noisy(tick), how))) for tick in range(10)]
    assert any(each != alone[0] for each in alone)  # without what was proposed before


def test_a_proposal_that_is_no_longer_right_is_not_kept() -> None:
    how, hot = method(Policy(moves_per_host=1)), hot_host()
    before = plan(picture(hot, host("one", cpu=0.1)), how).moves
    for changed, expected in (
        (picture(hot, host("one", cpu=0.1), host("two", cpu=0.05)), [("b", "hot", "one")]),
        (picture(hot, host("one", cpu=0.7), host("two", cpu=0.05)), [("b", "hot", "two")]),
        (picture(hot, host("two", cpu=0.05)), [("b", "hot", "two")]),
        (picture(hot_host([vm("a", 2.0, 4), vm("b", 2.0, 2, labels={"pinned": "1"}), vm("c", 3.2, 8)]),
                 host("one", cpu=0.1)), [("a", "hot", "one")]),
        (picture(host("hot", cpu=0.3), host("one", cpu=0.1)), []),
    ):  # fmt: skip
        heat = judge_all(changed, how.rule, how.parameters)
        assert moves(propose(changed, heat, how, Migrations(), before=before)) == expected
