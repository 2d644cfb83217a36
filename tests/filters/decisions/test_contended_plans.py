"""Plans by the contention rule where waiting is known: what decides the verdict is what is relieved."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from acquisition.config.decisions import Decisions, Policy
from acquisition.model.derived import WAITING
from filters.decisions.deciding import judge_all
from filters.decisions.method import method_of
from filters.decisions.migrations import Migrations
from filters.decisions.picture import CPU, MEMORY, NETWORK, Host, Vm
from filters.decisions.plan import Proposals, propose
from tests.support.pictures import constant, host, picture, reading, vm

PRESSURE, SWAP_IN, SWAP_OUT = (
    "pressure_memory_some_ratio", "swap_in_bytes_per_second", "swap_out_bytes_per_second"
)  # fmt: skip


def node(name: str, vms: Sequence[Vm] = (), waiting: float = 0.0, **signals: float) -> Host:
    """A host whose guests wait for that share of the time they want."""
    values = {"network": NETWORK, "steal": "cpu_steal_ratio", "pressure": PRESSURE, "swap": SWAP_IN}
    known = {values[signal]: value for signal, value in signals.items() if signal in values}
    if "swap" in signals:
        known[SWAP_OUT] = signals["swap"]
    extra = {metric: constant(metric, value) for metric, value in {WAITING: waiting, **known}.items()}
    return host(
        name, vms, cpu=signals.get("cpu"), memory=signals.get("memory"), gib=signals.get("gib", 64), extra=extra
    )


IDLE = node("idle", cpu=0.1, gib=256)
PINNED = {"pinned": "true"}


def plan(*hosts: Host) -> Proposals:
    how, seen = method_of(Decisions(policy=Policy(moves_per_host=9))), picture(*hosts)
    return propose(seen, judge_all(seen, how.rule, how.parameters), how, Migrations())


def moved(found: Proposals) -> list[str]:
    return [each.vm.name for each in found.moves]


def reasons(found: Proposals) -> dict[str, str]:
    return {(each.vm or each.host).name: each.reason for each in found.refusals}


# --- what decides the verdict is relieved ------------------------------------------------------------------------


def test_host_without_memory_gives_as_much_memory_as_it_lacks() -> None:
    guests = [vm("busy", 4.0, 1), *(vm(f"large{i}", 0.1, 4) for i in range(6))]
    found = plan(node("hot", guests, memory=1.0), IDLE)
    assert moved(found) == ["large5"]
    assert found.moves[0].cost.reason.endswith("frees 0.0625 of memory_used_ratio, 0.05 is needed")
    assert found.moves[0].why_vm.reason == "most memory (6.2% of its host's)"
    two = plan(node("hot", [each for each in guests if each.name != "large5"], memory=1.05), IDLE)
    assert moved(two) == ["large4", "large3"]  # memory is projected: as many as are needed


def test_busy_cpu_of_a_host_without_memory_is_left_alone() -> None:
    guests = [vm("busy", 4.0, 1), vm("large", 0.1, 8), vm("other", 0.1, 2)]
    assert moved(plan(node("hot", guests, cpu=0.88, memory=0.97), IDLE)) == ["large"]


@pytest.mark.parametrize("signal", [{"pressure": 0.3}, {"swap": 5e7}], ids=["pressure", "swap"])
def test_memory_wait_is_relieved_by_the_one_vm_with_most_memory(signal: dict[str, float]) -> None:
    guests = [vm("busy", 5.0, 1), vm("large", 0.05, 30), vm("small", 0.05, 4)]
    found = plan(node("hot", guests, cpu=0.7, memory=0.65, **signal), IDLE)
    assert moved(found) == ["large"]  # nobody knows what the next one does
    assert found.moves[0].cost.reason.endswith("frees 0.469 of memory_used_ratio")  # what is needed is unknown


def test_waiting_is_relieved_by_one_vm_with_much_cpu() -> None:
    found = plan(node("hot", [vm("busy", 4.0, 1), vm("large", 3.4, 30)], waiting=0.3, memory=0.9), IDLE)
    assert moved(found) == ["busy"]
    assert found.moves[0].cost.reason.endswith("frees 0.5 of cpu_busy_ratio, 0.125 is needed")


def test_stolen_time_is_relieved_by_one_vm_with_much_cpu() -> None:
    found = plan(node("hot", [vm("busy", 3.0, 1), vm("large", 1.0, 30)], steal=0.3, memory=0.9), IDLE)
    assert moved(found) == ["busy"]
    assert found.moves[0].cost.reason.endswith("frees 0.375 of cpu_busy_ratio")


def test_busy_link_is_relieved_to_its_own_level() -> None:
    talker = vm("talker", 0.5, 1)
    received = constant("network_receive_bytes_per_second", 0.9e9)
    talker = talker._replace(readings={**talker.readings, received.metric: received})
    found = plan(node("hot", [vm("busy", 4.0, 1), talker], network=0.95), IDLE)
    assert moved(found) == ["talker"]
    assert found.moves[0].cost.reason.endswith("frees 0.72 of network_used_ratio, 0.15 is needed")


def test_of_two_parts_the_one_further_beyond_its_level_comes_first() -> None:
    guests = [vm("busy", 4.0, 1), vm("large", 3.6, 30)]
    assert moved(plan(node("hot", guests, waiting=0.3, memory=0.96), IDLE)) == ["busy"]


def test_figures_of_all_parts_are_shown() -> None:
    hot = node("hot", [vm("busy", 4.0, 1)], memory=0.97)
    verdict = judge_all(picture(hot), method_of(Decisions()).rule, method_of(Decisions()).parameters).verdicts["hot"]
    names = [figure.name for figure in verdict.figures]
    assert (names[: verdict.deciding], f"{WAITING} mean" in names) == ([f"{MEMORY} mean", "enter"], True)


# --- hosts that no move helps ------------------------------------------------------------------------------------


def test_waiting_that_the_host_itself_causes_moves_nothing() -> None:
    found = plan(node("own", [vm(f"v{i}", 0.16, 1) for i in range(4)], waiting=0.3, cpu=1.0), IDLE)
    assert not found.moves
    assert reasons(found) == {
        "own": "moving all of its movable VMs (4) would not help, cpu_busy_ratio would be 0.92: 0.92 of its "
        "cpu_busy_ratio is not caused by VMs and would have to be reduced"
    }


def test_pinned_vm_that_would_end_the_waiting_is_named() -> None:
    guests = [vm("fixed", 7.0, 1, labels=PINNED), vm("small", 0.8, 1, labels=PINNED)]
    found = plan(node("hot", guests, waiting=0.3), IDLE)
    assert reasons(found)["hot"] == "none of its VMs can be moved now: moving fixed (it is pinned) would help"
    full = plan(node("hot", [vm("fixed", 0.5, 20, labels=PINNED)], memory=0.97), IDLE)
    assert reasons(full)["hot"] == "none of its VMs can be moved now: moving fixed (it is pinned) would help"
    stolen = plan(node("hot", [vm("fixed", 4.0, 1, labels=PINNED)], steal=0.3), IDLE)
    assert reasons(stolen)["hot"] == "none of its VMs can be moved now: moving fixed (it is pinned) may help"


def test_room_that_the_best_destination_lacks_is_said() -> None:
    found = plan(
        node("hot", [vm("a", 4.0, 1), vm("b", 3.8, 1)], waiting=0.3), node("half", cpu=0.5), node("full", cpu=0.7)
    )
    assert not found.moves
    lacks = "half lacks least: 0.25 of cpu_busy_ratio"
    assert reasons(found)["a"].endswith(lacks)
    assert reasons(found)["hot"].startswith("none of its VMs can be moved now: moving a (no host can take it (half: ")
    assert reasons(found)["hot"].endswith(f"{lacks}) would help")
    assert CPU in reasons(found)["b"]


@pytest.mark.parametrize(("mean", "moves"), [(0.03, []), (0.06, ["busy"])])
def test_host_that_gave_a_vm_gives_another_only_for_values_of_now(mean: float, moves: list[str]) -> None:
    waiting = reading(WAITING, [0.2] * 10 + [mean] * 20, mean=mean)
    hot = node("hot", [vm("busy", 4.0, 1), vm("other", 2.6, 1)])
    hot = hot._replace(readings={**hot.readings, WAITING: waiting})
    how, seen = method_of(Decisions()), picture(hot, IDLE)
    heat = judge_all(seen, how.rule, how.parameters, frozenset({"hot"}))
    assert heat.hot == {"hot"}
    found = propose(seen, heat, how, Migrations(ends={"hot": 985.0}), 1000.0)
    assert moved(found) == moves
    assert moves or "only values of before" in reasons(found)["hot"]
