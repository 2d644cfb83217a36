"""Synthetic scenarios: seeded, with known truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from experiments.decisions.faults import sensor_faults, without_faults
from experiments.decisions.load import Floats, Load, measured, memory_of, per_host
from experiments.decisions.noise import CALM, Event, Noise, autoregressive, profile, spikes

BASE = 0.6  #: load of a host while nothing happens
STEP = 0.35  #: 0.6 to 0.95
BEFORE = 3600  #: seconds of history with which windows start: twelve five-minute samples

_SLOT = 1200.0  #: one step or ramp per host in so many seconds
_HOLD = 720.0  #: long enough for two five-minute samples


class Size(NamedTuple):
    """The emulated data center, and for how long."""

    hosts: int = 100
    vms: int = 30  #: per host
    ticks: int = 3600


class Scenario(NamedTuple):
    """``events`` draws what happens; ``carriers`` is over how many VMs of a host one event is spread."""

    noise: Noise
    events: Callable[[np.random.Generator, Size], list[Event]]
    carriers: int = 3
    faults: bool = False
    spread: float = 0.0  #: hosts differ in their load by +- this


def build(name: str, seed: int, size: Size, noise: Noise | None = None) -> Load:
    """The load of the named scenario; the same seed gives the same load. ``noise`` in place of the scenario's own."""
    scenario = SCENARIOS[name]
    generator = np.random.default_rng([seed, sorted(SCENARIOS).index(name)])
    noise = noise or scenario.noise
    base = _base(generator, size, scenario.spread)
    level = np.tile(base.reshape(-1), (size.ticks, 1)).astype(np.float32)
    for event in scenario.events(generator, size):
        _add(level, event, generator, size, scenario.carriers)
    return assemble(name, level, generator, size, noise, scenario.faults)


def assemble(
    name: str, level: Floats, generator: np.random.Generator, size: Size, noise: Noise, faults: bool = False
) -> Load:
    """A load from the sustained level (T, V) of its VMs: noise, spikes and faults are added.

    The noise of a host is that of its VMs, each independent, with variances in proportion to what they use.
    """
    home = np.repeat(np.arange(size.hosts), size.vms)
    share = level[0].reshape(size.hosts, size.vms)
    share = np.sqrt(share / np.maximum(share.sum(1, keepdims=True), 1e-6)).astype(np.float32).reshape(-1)
    demand = autoregressive(generator, size.ticks, size.hosts * size.vms, noise)
    demand *= share
    demand += level
    _add_spikes(demand, per_host(demand, home, size.hosts), generator, size, noise)
    before = per_host(level[:1], home, size.hosts) + autoregressive(generator, BEFORE, size.hosts, noise)
    found = sensor_faults(generator, size.ticks, size.hosts) if faults else without_faults(size.ticks, size.hosts)
    memory = memory_of(generator, size.hosts * size.vms)
    return Load(name, demand, level, home, memory, found.valid, found.wrong, measured(before))


def _base(generator: np.random.Generator, size: Size, spread: float) -> Floats:
    """The sustained load (hosts, vms) at the start: VMs are of different sizes."""
    hosts = BASE + generator.uniform(-spread, spread, size.hosts)
    return (hosts[:, None] * generator.dirichlet(np.full(size.vms, 2.0), size.hosts)).astype(np.float32)


def _add(level: Floats, event: Event, generator: np.random.Generator, size: Size, carriers: int) -> None:
    chosen = event.host * size.vms + generator.choice(size.vms, min(carriers, size.vms), replace=False)
    shares = generator.dirichlet(np.full(len(chosen), 4.0))
    level[:, chosen] += np.outer(profile(event, size.ticks), shares).astype(np.float32)


def _add_spikes(demand: Floats, total: Floats, generator: np.random.Generator, size: Size, noise: Noise) -> None:
    """Raise one VM of a host so that the host is full for the covered part of each tick."""
    for spike in spikes(generator, size.ticks, size.hosts, noise):
        vm = spike.host * size.vms + int(generator.integers(size.vms))
        ticks = slice(spike.tick, min(spike.tick + len(spike.covered), size.ticks))
        missing = np.maximum(1.0 - total[ticks, spike.host], 0.0)
        demand[ticks, vm] += missing * spike.covered[: len(missing)].astype(np.float32)


def _nothing(_generator: np.random.Generator, _size: Size) -> list[Event]:
    return []


def _steps(generator: np.random.Generator, size: Size) -> list[Event]:
    """0.6 to 0.95 at once, for twelve minutes, once in twenty minutes on every host."""
    return [
        Event(host, slot * _SLOT + generator.uniform(30.0, _SLOT - _HOLD - 30.0), 0.0, _HOLD, 0.0, STEP)
        for host in range(size.hosts)
        for slot in range(int(size.ticks // _SLOT))
    ]


def _ramps(generator: np.random.Generator, size: Size) -> list[Event]:
    """0.6 to 1.0 within one to five minutes."""
    return [
        Event(host, slot * _SLOT + generator.uniform(30.0, 120.0), generator.uniform(60, 300), 480.0, 30.0, 0.4)
        for host in range(size.hosts)
        for slot in range(int(size.ticks // _SLOT))
    ]


def _bursts(generator: np.random.Generator, size: Size) -> list[Event]:
    """Every five minutes a third of the hosts rises at the same time, by 0.1 to 0.4, for 10 to 60 s."""
    found = []
    for start in np.arange(60.0, size.ticks - 70.0, 300.0):
        at = start + generator.uniform(0.0, 120.0)
        for host in generator.choice(size.hosts, max(1, size.hosts // 3), replace=False):
            height, hold = generator.uniform(0.1, 0.4), generator.uniform(10.0, 60.0)
            found.append(Event(int(host), at + generator.uniform(0.0, 2.0), 0.0, hold, 0.0, height))
    return found


def _mixed(generator: np.random.Generator, size: Size) -> list[Event]:
    """A step for two hosts in five, a ramp for one in five, and the bursts."""
    found = _bursts(generator, size)
    order = generator.permutation(size.hosts)
    for host in order[: int(0.4 * size.hosts)]:
        start = generator.uniform(60.0, 0.6 * size.ticks)
        found.append(Event(int(host), start, 0.0, 0.35 * size.ticks, 0.0, STEP))
    for host in order[int(0.4 * size.hosts) : int(0.6 * size.hosts)]:
        start = generator.uniform(60.0, 0.5 * size.ticks)
        found.append(Event(int(host), start, generator.uniform(60, 300), 0.35 * size.ticks, 30.0, 0.4))
    return found


SCENARIOS: dict[str, Scenario] = {
    "noise": Scenario(Noise(), _nothing),
    "step": Scenario(CALM, _steps),
    "noisy step": Scenario(Noise(), _steps),
    "ramp": Scenario(Noise(), _ramps),
    "bursts": Scenario(Noise(), _bursts, carriers=10),
    "faults": Scenario(Noise(), _steps, faults=True),
    "mixed": Scenario(Noise(), _mixed, carriers=5, faults=True, spread=0.15),
}
