"""The schedule of faults: repeatable, survivable, and with everything in it."""

from __future__ import annotations

from itertools import combinations

import pytest

from experiments.chaos import schedule
from experiments.chaos.faults import KINDS
from experiments.chaos.kinds import GROUPS, Fault
from experiments.chaos.options import Scene

SCENE = Scene(shards=3, workers=3, generators=4, archivers=2)
ORDINARY = {kind.name for kind in KINDS.values() if kind.group in GROUPS}
AWAY = {
    "kill_master",
    "cut_master",
    "isolate_master",
    "grow",
    "freeze_master",
    "kill_replica",
    "cut_replica",
    "lose_shard",
}


def test_a_seed_repeats_the_schedule_and_another_seed_makes_another() -> None:
    assert schedule.make(7, 60.0, SCENE) == schedule.make(7, 60.0, SCENE)
    assert schedule.make(7, 60.0, SCENE) != schedule.make(8, 60.0, SCENE)


def test_the_schedule_of_a_seed_is_the_same_everywhere() -> None:
    first = schedule.make(1, 60.0, SCENE)[0]
    assert first == Fault(at=3.127, kind="loss_shard", target=0, seconds=3.274, size=0.0463)


@pytest.mark.parametrize("seed", range(20))
def test_faults_are_survivable(seed: int) -> None:
    faults = schedule.make(seed, 300.0, SCENE)
    assert all(fault.at >= 0.0 and fault.until <= 300.0 for fault in faults)
    assert all(fault.seconds < 600.0 / 12 for fault in faults)  # far shorter than a ring
    for one, other in combinations(faults, 2):
        assert not schedule.conflict(one, other), (one, other)
    away = [fault for fault in faults if fault.kind in AWAY or fault.kind == "reshard"]
    for one, other in combinations(away, 2):  # never two shards at once, and never before the first has settled
        assert one.until + KINDS[one.kind].settle <= other.at or other.until + KINDS[other.kind].settle <= one.at


def test_five_minutes_have_every_kind_of_fault() -> None:
    for seed in range(10):
        assert {fault.kind for fault in schedule.make(seed, 300.0, SCENE)} == ORDINARY


def test_kinds_can_be_chosen() -> None:
    faults = schedule.make(3, 60.0, SCENE, ["kill_worker", "kill_master"])
    assert {fault.kind for fault in faults} == {"kill_worker", "kill_master"}


def test_the_same_target_is_not_disturbed_twice() -> None:
    kill = Fault(10.0, "kill_master", 1, 8.0)
    assert schedule.conflict(kill, Fault(20.0, "limit_memory", 1, 3.0))  # it has not settled
    assert not schedule.conflict(kill, Fault(20.0, "limit_memory", 2, 3.0))
    assert schedule.conflict(kill, Fault(12.0, "reshard", 0, 6.0))
    assert not schedule.conflict(kill, Fault(12.0, "kill_worker", 1, 6.0))
    assert not schedule.conflict(kill, Fault(12.0, "step_clock", 1, 0.0))
