"""Calibration of the simulation: service times from runs with few hosts.

The number of each event in a run is taken from the simulation at the same load; the costs are those with which these
counts add up to the measured CPU time (least squares of relative errors, no cost below zero). Counts depend slightly on
costs, as a busy worker lingers: a few rounds settle that.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.paper.simulate import Costs, Setup, simulate

Values = npt.NDArray[np.float64]

_ROUNDS = 4
#: Start of the rounds: any values of the right size.
_FIRST = Costs(10e-6, 20e-6, 30e-6, 5e-6, 30e-6, 20e-6, 60e-6, 0.005)


class Run(NamedTuple):
    """A measured run: its load, and the cores used by all shards and by all workers."""

    setup: Setup
    shard_cores: float
    worker_cores: float


def calibrate(runs: Sequence[Run]) -> Costs:
    """The costs that best explain the runs."""
    costs = _FIRST
    for _ in range(_ROUNDS):
        counted = [simulate(run.setup, costs).rates for run in runs]
        queries = [run.setup.watched / run.setup.poll for run in runs]
        of_shards = [[rates[name] for name in ("wakes", "frames", "commits")] for rates in counted]
        of_workers = [[rates[name] for name in ("turns", "frames", "commits")] for rates in counted]
        idle = [float(run.setup.workers) for run in runs]
        costs = Costs(
            *_explain(np.column_stack([of_shards, queries]), np.array([run.shard_cores for run in runs])),
            *_explain(np.column_stack([of_workers, idle]), np.array([run.worker_cores for run in runs])),
        )
    return costs


def _explain(counts: Values, cores: Values) -> list[float]:
    """Costs of events, not below zero, by least squares of relative errors: the best choice of positive costs among
    all, which are few."""
    weighted, ones = counts / cores[:, None], np.ones(len(cores))
    width = counts.shape[1]
    best, least = [0.0] * width, float("inf")
    for size in range(1, min(width, len(cores)) + 1):
        for chosen in combinations(range(width), size):
            found = np.linalg.lstsq(weighted[:, chosen], ones, rcond=None)[0]
            left = float(np.sum((weighted[:, chosen] @ found - ones) ** 2))
            if (found >= 0.0).all() and left < least:
                costs = dict(zip(chosen, found.tolist(), strict=True))
                best, least = [costs.get(place, 0.0) for place in range(width)], left
    return best
