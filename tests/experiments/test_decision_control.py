"""Migrations: who is where, what a move costs, what comes back; and the plan."""

import numpy as np
import pytest

from acquisition.config.decisions import Policy
from experiments.decisions.control import NOBODY, ORACLE, Method, Seen, control, plan
from experiments.decisions.detection import detect, observe
from experiments.decisions.load import Load
from experiments.decisions.migration import FLAP_SECONDS, Fleet
from experiments.decisions.synthetic import Size, build
from experiments.decisions.watch import RAW, named
from filters.decisions.overload_detection import threshold

POLICY = Policy(cool_down_seconds=0.0)


def fleet(hosts=3, vms=2):
    return Fleet(np.repeat(np.arange(hosts), vms), np.full(hosts * vms, 4.0, np.float32), hosts)


def seen(used, vms, hot=None, abstained=None):
    used = np.asarray(used, float)
    none = np.zeros(len(used), bool)
    hot = used > 0.9 if hot is None else np.asarray(hot)
    return Seen(hot, none if abstained is None else np.asarray(abstained), used - 0.9, used, np.asarray(vms, float))


def test_a_vm_stays_with_its_source_until_the_migration_ends():
    moved = fleet()
    moved.begin(10, 0, 2)
    assert list(moved.moving) == [1, 0, 1]
    moved.finish(15)
    assert moved.place[0] == 0
    moved.finish(16)  # two seconds, and four for 4 GiB
    assert moved.place[0] == 2
    assert list(moved.moving) == [0, 0, 0]
    assert list(moved.free(20, 15.0)) == [False, True, False]
    assert moved.free(31, 15.0).all()


def test_a_vm_that_comes_back_within_ten_minutes_has_flapped():
    for later, flap in ((FLAP_SECONDS, True), (FLAP_SECONDS + 1, False)):
        moved = fleet()
        moved.begin(10, 0, 2)
        moved.finish(100)
        moved.begin(10 + later, 0, 0)
        assert [each.flap for each in moved.begun] == [False, flap]


def test_the_greatest_vm_goes_to_the_least_loaded_host():
    assert plan(seen([0.95, 0.5, 0.4], [0.2, 0.3, 0.1, 0.1, 0.1, 0.1]), fleet(), POLICY, 0) == [(1, 2)]


def test_nothing_goes_where_there_is_no_room_or_no_certainty():
    vms = [0.2, 0.3, 0.1, 0.1, 0.1, 0.1]
    assert plan(seen([0.95, 0.5, 0.56], vms), fleet(), POLICY, 0) == [(1, 1)]
    assert plan(seen([0.95, 0.7, 0.7], vms), fleet(), POLICY, 0) == []
    assert plan(seen([0.95, 0.6, 0.6], vms), fleet(), POLICY, 0) == [(0, 1)]  # the smaller one fits
    assert plan(seen([0.95, 0.4, 0.5], vms, abstained=[False, True, False]), fleet(), POLICY, 0) == [(1, 2)]


def test_limits_of_the_policy():
    vms = [0.2, 0.3, 0.1, 0.1, 0.1, 0.1]
    young = fleet()
    young.since[1] = -10
    assert plan(seen([0.95, 0.5, 0.4], vms), young, POLICY, 0) == [(0, 2)]
    busy = fleet()
    busy.begin(0, 0, 2)
    assert plan(seen([0.95, 0.5, 0.4], vms), busy, POLICY, 1) == []
    tiny = plan(seen([0.95, 0.5, 0.4], [0.005] * 6), fleet(), POLICY, 0)
    assert tiny == []


def test_two_hot_hosts_do_not_give_to_one_at_the_same_time():
    moves = plan(seen([0.95, 0.96, 0.2, 0.3], [0.2, 0.1, 0.3, 0.1, 0, 0, 0, 0]), fleet(4), POLICY, 0)
    assert moves == [(2, 2), (0, 3)]


def flat(levels, ticks=120):
    """Two VMs per host whose load is constant."""
    hosts = len(levels)
    demand = np.repeat(np.repeat(np.asarray(levels, np.float32) / 2, 2)[None], ticks, 0)
    return Load(
        "flat", demand, demand, np.repeat(np.arange(hosts), 2), np.full(2 * hosts, 2.0, np.float32),
        np.ones((ticks, hosts), bool), np.full((ticks, hosts), np.nan, np.float32),
        np.repeat(np.asarray(levels, np.float32)[None], 60, 0),
    )  # fmt: skip


def test_an_overload_lasts_until_the_vm_has_moved():
    load = flat([0.96, 0.2])
    assert control(load, Method(RAW, NOBODY)).overload_seconds == 120
    oracle = control(load, Method(RAW, ORACLE))
    assert (oracle.migrations, oracle.needless, oracle.flaps) == (1, 0, 0)
    assert oracle.overload_seconds == 4  # the tick that showed it, and the migration: two seconds and 2 GiB
    parameters = threshold.Parameters(smoothed=False, high=0.9, low=0.8, k=4, n=5)
    assert control(load, Method(RAW, "threshold", parameters)).overload_seconds == 4  # its window was full before


def test_nobody_and_the_oracle_enclose_the_rules():
    load = build("mixed", 105, Size(10, 6, 1800))
    parameters = threshold.Parameters(smoothed=True, high=0.88, low=0.78, k=4, n=5)
    nobody, found, oracle = (
        control(load, method)
        for method in (Method(RAW, NOBODY), Method(named("EMA 2 s"), "threshold", parameters), Method(RAW, ORACLE))
    )
    assert oracle.overload_seconds < found.overload_seconds < nobody.overload_seconds
    assert nobody.migrations == 0 < found.migrations
    assert oracle.needless == 0


def test_a_sensor_that_is_wrong_is_believed_and_one_that_is_invalid_is_not():
    load = flat([0.5, 0.5])
    load.wrong[60:80, 0] = 0.97
    parameters = threshold.Parameters(smoothed=False, high=0.9, low=0.8, k=4, n=5)
    (hot,) = detect(observe(load), RAW, "threshold", [parameters])
    assert hot[:, 0].sum() == pytest.approx(17, abs=1)
    load.valid[60:80, 0] = False
    (hot,) = detect(observe(load), RAW, "threshold", [parameters])
    assert not hot.any()
