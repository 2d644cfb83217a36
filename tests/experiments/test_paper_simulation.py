"""The simulation of the pipeline: what can be computed by hand, costs that are found again, sizes that are planned."""

from __future__ import annotations

import math

import pytest

from experiments.paper.calibration import Run, calibrate
from experiments.paper.prediction import HEADROOM, MEMORY, NETWORK, WORKER, Demand, Machine, first_bottleneck, plan
from experiments.paper.simulate import Costs, Setup, simulate

pytest.importorskip("simpy")

COSTS = Costs(8e-6, 25e-6, 35e-6, 3e-6, 30e-6, 20e-6, 60e-6, 0.01)
FREE = Costs(*(0.0,) * 8)
SLOW = Costs(*(10.0 * cost for cost in COSTS[:-1]), 0.0)
MACHINE = Machine(2, 24e9, 125e6)


def test_idle_pipeline_adds_up_by_hand() -> None:
    """Fifty hosts never meet: every frame wakes the shard and is committed alone, which wakes it again."""
    found = simulate(Setup(50), COSTS)
    polls = 100.0
    assert found.rates["frames"] == found.rates["commits"] == found.rates["turns"] == pytest.approx(50.0, abs=0.5)
    wakes = 50.0 * 2 + polls
    by_hand = wakes * 8e-6 + 50.0 * (25e-6 + 35e-6) + polls * 16 * 3e-6
    assert found.shard == pytest.approx(by_hand, rel=0.03)
    assert found.worker == pytest.approx(0.01 + 50.0 * 110e-6, rel=0.03)


def test_age_without_costs_is_the_reader_s_poll() -> None:
    """Nothing waits for anything but the next look of the reader."""
    found = simulate(Setup(300, poll=0.02), FREE)
    assert found.age_p50 == pytest.approx(0.01, abs=0.002)
    assert found.age_p95 == pytest.approx(0.019, abs=0.002)


def test_busy_worker_lingers_and_commits_together() -> None:
    """The product's rule: of 64 partitions each is committed ten times a second at most."""
    found = simulate(Setup(10_000, shards=2), COSTS)
    assert found.rates["commits"] == pytest.approx(640.0, rel=0.02)
    assert found.rates["frames"] == pytest.approx(10_000.0, rel=0.01)
    assert 0.09 < found.age_p95 < 0.12


def test_overload_is_said() -> None:
    """Twice what the worker's core can do: its core is full, ages grow, and what is done is less than what comes."""
    found = simulate(Setup(7_000, shards=8), SLOW)
    assert found.behind
    assert found.worker == pytest.approx(1.0, abs=0.05)
    assert found.rates["frames"] < 6_000


def test_calibration_finds_costs_that_predict_ten_thousand_hosts() -> None:
    """From four runs of at most 500 hosts with 2% of error: within 15% at twenty times as many."""
    runs = []
    for number, (hosts, rate) in enumerate(((100, 1.0), (500, 1.0), (500, 4.0), (500, 20.0))):
        setup = Setup(hosts, rate=rate, shards=2)
        found = simulate(setup, COSTS)
        error = 1.0 + 0.02 * (-1) ** number
        runs.append(Run(setup, found.shard_cores * error, found.worker_cores / error))
    large = Setup(10_000, shards=2)
    true, predicted = simulate(large, COSTS), simulate(large, calibrate(runs))
    assert predicted.shard_cores == pytest.approx(true.shard_cores, rel=0.15)
    assert predicted.worker_cores == pytest.approx(true.worker_cores, rel=0.15)
    assert predicted.age_p95 == pytest.approx(true.age_p95, rel=0.15)


def test_plan_keeps_every_share_below_the_headroom() -> None:
    """And counts machines by the resource that takes most of them."""
    planned = plan(30_000, COSTS, Demand(1e8, 1e5, 8_500.0), MACHINE)
    assert max(planned.simulated.shard, planned.simulated.worker) <= HEADROOM
    cores = math.ceil((planned.setup.shards + planned.setup.workers) / MACHINE.cores)
    assert planned.machines == max(cores, math.ceil(30_000 * 8_500 / (HEADROOM * MACHINE.network)))


@pytest.mark.parametrize(
    ("demand", "resource", "hosts"),
    [
        (Demand(0.0, 48e6, 1.0), MEMORY, 500),
        (Demand(0.0, 1.0, 125_000.0), NETWORK, 1_000),
        (Demand(0.0, 1.0, 1.0), WORKER, 2_500),
    ],
)
def test_first_bottleneck_is_named(demand: Demand, resource: str, hosts: int) -> None:
    """The worker's where frames of 0.4 ms fill a second, as full batches are few."""
    slow = SLOW._replace(worker_frame=400e-6)
    assert first_bottleneck(slow, demand, MACHINE) == (resource, pytest.approx(hosts, rel=0.1))
