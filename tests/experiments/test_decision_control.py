"""Migrations: who is where, what a move costs, what comes back; and the plan."""

import numpy as np

from experiments.decisions.control import NOBODY, ORACLE, Method, control
from experiments.decisions.load import Load
from experiments.decisions.synthetic import Size, build
from experiments.decisions.watch import RAW, named
from filters.decisions.overload_detection import threshold


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
