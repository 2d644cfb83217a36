"""Prediction for larger data centers: first bottleneck, machines needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from experiments.paper import fits
from experiments.paper.calibration import Run, calibrate
from experiments.paper.simulate import Costs, Setup, Simulated, simulate

SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
HEADROOM = 0.7  #: the largest planned share of a resource
SHARD, WORKER, MEMORY, NETWORK = "core of a shard", "core of a filter worker", "memory", "network"
_MOST = 100_000  #: hosts up to which a bottleneck is searched for
_STEPS = 8
_SECONDS = 2.0


class Machine(NamedTuple):
    """Capacity of one machine: cores, bytes of memory, bytes per second of its network."""

    cores: int
    memory: float
    network: float


class Demand(NamedTuple):
    """Demand that is linear in the number of hosts: bytes of memory of shards and filter without hosts and per host,
    and bytes per second of a host's frames on the network. The filter runs beside the shards."""

    memory: float
    memory_per_host: float
    network_per_host: float

    def memory_of(self, hosts: int) -> float:
        """Bytes."""
        return self.memory + self.memory_per_host * hosts


class Planned(NamedTuple):
    """The smallest pipeline for a number of hosts with every share below HEADROOM, and its simulation."""

    setup: Setup
    simulated: Simulated
    machines: int


class Bottleneck(NamedTuple):
    """The first exhausted resource on one machine with one shard and one worker, and the number of hosts at that
    point."""

    resource: str
    hosts: int


@lru_cache(8)
def costs_of(runs: tuple[Run, ...]) -> Costs:
    """Service times, calibrated once for the same runs."""
    return calibrate(runs)


@lru_cache(64)
def simulated(setup: Setup, costs: Costs) -> Simulated:
    """A simulation, run once."""
    return simulate(setup, costs)


def demand(hosts: Sequence[float], memory: Sequence[float], network_per_host: float) -> Demand:
    """Memory as a line through the measured points."""
    line = fits.fit(fits.LINE, hosts, memory)
    base, slope = line.at([0.0, 1.0]).tolist()
    return Demand(max(0.0, base), max(0.0, slope - base), network_per_host)


@lru_cache(64)
def plan(hosts: int, costs: Costs, wanted: Demand, machine: Machine) -> Planned:
    """Add shards and workers as needed, until every share stays below HEADROOM."""
    shards = workers = 1
    while True:
        setup = Setup(hosts, shards=shards, workers=workers, seconds=_SECONDS)
        found = simulated(setup, costs)
        if found.shard <= HEADROOM and found.worker <= HEADROOM and not found.behind:
            return Planned(setup, found, _machines(setup, wanted, machine))
        shards += _more(found.shard, shards)
        workers += _more(found.worker, workers)
        if found.behind and found.shard <= HEADROOM and found.worker <= HEADROOM:
            workers += 1


@lru_cache(8)
def first_bottleneck(costs: Costs, wanted: Demand, machine: Machine) -> Bottleneck:
    """The first exhaustion of one shard, one worker, the memory or the network of one machine."""
    low, high = 100, _MOST
    for _ in range(_STEPS):
        middle = round(math.sqrt(low * high))
        found = simulate(Setup(middle, seconds=_SECONDS), costs)
        low, high = (low, middle) if found.behind or max(found.shard, found.worker) >= 1.0 else (middle, high)
    last = simulate(Setup(low, seconds=_SECONDS), costs)
    limits = {
        SHARD if last.shard >= last.worker else WORKER: float(low),
        MEMORY: (machine.memory - wanted.memory) / wanted.memory_per_host if wanted.memory_per_host else math.inf,
        NETWORK: machine.network / wanted.network_per_host,
    }
    resource = min(limits, key=lambda name: limits[name])
    return Bottleneck(resource, int(limits[resource]))


def _more(share: float, there: int) -> int:
    """Number to add if each works a ``share`` of the time: at least one if that is too much."""
    return 0 if share <= HEADROOM else max(1, math.ceil(there * share / HEADROOM) - there)


def _machines(setup: Setup, wanted: Demand, machine: Machine) -> int:
    cores = math.ceil((setup.shards + setup.workers) / machine.cores)
    memory = math.ceil(wanted.memory_of(setup.hosts) / (HEADROOM * machine.memory))
    network = math.ceil(wanted.network_per_host * setup.hosts / (HEADROOM * machine.network))
    return max(1, cores, memory, network)
