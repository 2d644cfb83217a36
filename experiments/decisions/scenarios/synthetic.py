"""Synthetic scenarios: noise, spikes, Pareto bursts, periodic jobs and sawtooth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.decisions.scenarios.work import TRAINING, Scenario, Size, Work, autoregressive, covered
from experiments.simulation.arrays import Doubles, Floats

Build = Callable[[np.random.Generator, Size], Work]
_CALM = 0.02  #: standard deviation at which a step is obvious in a plot
_APART = 10.0


def noise(mean: float, deviation: float, phi: float = 0.5) -> Build:
    """AR(1) with lag-1 correlation ``phi`` around a mean."""

    def build(draw: np.random.Generator, size: Size) -> Work:
        spread = _around(draw, size, mean, deviation, phi)
        return Work(spread, np.zeros_like(spread))

    return build


def two_levels(mean: float, others: float, deviation: float) -> Build:
    """Every other host at ``mean``, the rest at ``others``: those have room for moved guests."""

    def build(draw: np.random.Generator, size: Size) -> Work:
        level = np.where(np.arange(size.hosts) % 2 == 0, mean, others)
        spread = np.maximum(level + autoregressive(draw, size, deviation, 0.5), 0.0).astype(np.float32)
        return Work(spread, np.zeros_like(spread))

    return build


def spikes(mean: float, longest: float, per_hour: float = 10.0, shortest: float = 0.5) -> Build:
    """Bursts of ``shortest`` to ``longest`` seconds at random times that fill the host."""
    return _bursting(mean, per_hour, lambda draw, count: draw.uniform(shortest, longest, count))


def pareto(mean: float, per_hour: float = 40.0, least: float = 1.0, shape: float = 1.5) -> Build:
    """Bursts with heavy-tailed lengths, up to 10 minutes."""
    return _bursting(mean, per_hour, lambda draw, count: np.minimum(least * (1.0 + draw.pareto(shape, count)), 600.0))


def _bursting(mean: float, per_hour: float, lengths: Callable[[np.random.Generator, int], Doubles]) -> Build:
    """Bursts at least 10 s apart: adjacent ones would merge into one of another length."""

    def build(draw: np.random.Generator, size: Size) -> Work:
        spread = _around(draw, size, mean)
        bursts = np.zeros_like(spread)
        for host in range(size.hosts):
            long = lengths(draw, int(draw.poisson(per_hour * size.seconds / 3600.0)))
            taken = np.concatenate(([0.0], np.cumsum(long + _APART)))
            starts = np.sort(draw.uniform(0.0, max(1.0, size.seconds - taken[-1]), len(long))) + taken[:-1]
            _fill(bursts, spread, host, starts, long)
        return Work(spread, bursts)

    return build


def periodic(mean: float, length: float, period: float, jitter: float = 0.5) -> Build:
    """A job of ``length`` seconds every ``period`` that fills the host, with a phase per host."""

    def build(draw: np.random.Generator, size: Size) -> Work:
        spread = _around(draw, size, mean)
        bursts = np.zeros_like(spread)
        for host in range(size.hosts):
            starts = np.arange(draw.uniform(0.0, period), size.seconds, period)
            starts = starts + draw.uniform(0.0, jitter, len(starts))
            _fill(bursts, spread, host, starts, np.full(len(starts), length))
        return Work(spread, bursts)

    return build


def sawtooth(low: float, high: float, period: float) -> Build:
    """A rise from ``low`` to ``high`` within ``period`` and an immediate fall, as by memory collection."""

    def build(draw: np.random.Generator, size: Size) -> Work:
        phase = (np.arange(size.seconds)[:, None] / period + draw.random(size.hosts)) % 1.0
        spread = low + (high - low) * phase + autoregressive(draw, size, _CALM, 0.5)
        return Work(np.maximum(spread, 0.0).astype(np.float32), np.zeros_like(spread, np.float32))

    return build


def _around(draw: np.random.Generator, size: Size, mean: float, deviation: float = _CALM, phi: float = 0.5) -> Floats:
    return np.asarray(np.maximum(mean + autoregressive(draw, size, deviation, phi), 0.0), np.float32)


def _fill(bursts: Floats, spread: Floats, host: int, starts: Doubles, lengths: Doubles) -> None:
    """Add the work that fills a host for the covered part of each second."""
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        if start >= len(bursts):
            break
        first, parts = covered(start, length, len(bursts))
        seconds = slice(first, first + len(parts))
        lacking = np.maximum(1.0 - spread[seconds, host], 0.0) * parts
        bursts[seconds, host] = np.maximum(bursts[seconds, host], lacking)


SCENARIOS: tuple[Scenario, ...] = (
    *(Scenario(f"noise {sd:g} at 0.6", noise(0.6, sd), TRAINING) for sd in (0.02, 0.05, 0.1, 0.15)),
    *(Scenario(f"noise 0.05 at {mean:g}", noise(mean, 0.05), TRAINING, pressure=False) for mean in (0.5, 0.7, 0.8)),
    *(Scenario(f"spikes to {s} s at 0.6", spikes(0.6, s), TRAINING) for s in (1, 2)),
    Scenario("job of 5 s each 60 s at 0.6", periodic(0.6, 5.0, 60.0), TRAINING, pressure=False),
    Scenario("calm at 0.6", noise(0.6, 0.02, 0.3)),
    Scenario("AR(0.5) 0.08 at 0.65", noise(0.65, 0.08), pressure=False, delay=False),
    Scenario("AR(0.5) 0.05 at 0.85", noise(0.85, 0.05)),
    Scenario("AR(0.9) 0.15 at 0.6", noise(0.6, 0.15, 0.9)),
    Scenario("AR(0.9) 0.15 at 0.7", noise(0.7, 0.15, 0.9), pressure=False),
    *(Scenario(f"spikes to {s} s at 0.6", spikes(0.6, s), pressure=s % 2 == 0) for s in (3, 4, 5, 6, 12, 30)),
    *(Scenario(f"spikes to 3 s at {mean:g}", spikes(mean, 3), pressure=mean < 0.8) for mean in (0.7, 0.8)),
    *(Scenario(f"Pareto at {mean:g}", pareto(mean), pressure=mean < 0.7, delay=mean < 0.7) for mean in (0.6, 0.7)),
    Scenario("job of 5 s each 60 s at 0.7", periodic(0.7, 5.0, 60.0, jitter=3.0), pressure=False),
    Scenario("job of 20 s each 600 s at 0.6", periodic(0.6, 20.0, 600.0, jitter=3.0), delay=False),
    Scenario("sawtooth 0.5 to 0.95 in 120 s", sawtooth(0.5, 0.95, 120.0), pressure=False),
    Scenario("sawtooth 0.4 to 0.9 in 15 s", sawtooth(0.4, 0.9, 15.0)),
    Scenario("4 cores at 0.81", two_levels(0.81, 0.35, 0.02), cores=4, pressure=False),
    Scenario("64 cores at 0.92", two_levels(0.92, 0.5, 0.01), cores=64, to=0.99),
    *(Scenario(f"gaps of {part:.0%}", noise(0.6, 0.1, 0.7), gaps=part, pressure=False) for part in (0.01, 0.1)),
    *(Scenario(f"invalid {part:.0%}", noise(0.6, 0.1, 0.7), invalid=part) for part in (0.01, 0.1)),
    *(Scenario(f"interval {s} s", noise(0.6, 0.1, 0.7), interval=s, pressure=s < 5, delay=s < 5) for s in (2, 5)),
)
