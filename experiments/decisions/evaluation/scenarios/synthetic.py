"""Synthetic scenarios: noise, spikes, Pareto bursts, periodic jobs and sawtooth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from experiments.decisions.evaluation.scenarios.work import TRAINING, Scenario, Size, Work
from experiments.decisions.load import Floats
from experiments.decisions.noise import Noise, autoregressive

Build = Callable[[np.random.Generator, Size], Work]
Doubles = npt.NDArray[np.float64]
_CALM = Noise(deviation=0.02)


def noise(mean: float, deviation: float, phi: float = 0.5) -> Build:
    """AR(1) of lag-1 correlation ``phi`` around a mean."""

    def build(draw: np.random.Generator, size: Size) -> Work:
        spread = _around(draw, size, mean, Noise(deviation, phi))
        return Work(spread, np.zeros_like(spread))

    return build


def spikes(mean: float, longest: float, per_hour: float = 10.0, shortest: float = 0.5) -> Build:
    """Bursts to the whole host of ``shortest`` to ``longest`` seconds at random times."""

    def draw_one(draw: np.random.Generator, count: int) -> Doubles:
        return draw.uniform(shortest, longest, count)

    return _bursting(mean, per_hour, draw_one)


def pareto(mean: float, per_hour: float = 40.0, least: float = 1.0, shape: float = 1.5) -> Build:
    """Bursts whose lengths have a heavy tail, up to 10 minutes."""

    def draw_one(draw: np.random.Generator, count: int) -> Doubles:
        return np.minimum(least * (1.0 + draw.pareto(shape, count)), 600.0)

    return _bursting(mean, per_hour, draw_one)


def _bursting(mean: float, per_hour: float, lengths: Callable[[np.random.Generator, int], Doubles]) -> Build:
    def build(draw: np.random.Generator, size: Size) -> Work:
        spread = _around(draw, size, mean, _CALM)
        bursts = np.zeros_like(spread)
        for host in range(size.hosts):
            count = int(draw.poisson(per_hour * size.seconds / 3600.0))
            starts = draw.uniform(0.0, size.seconds, count)
            _fill(bursts, spread, host, starts, lengths(draw, count))
        return Work(spread, bursts)

    return build


def periodic(mean: float, length: float, period: float, jitter: float = 0.5) -> Build:
    """A job of ``length`` seconds each ``period`` that takes the whole host, at a phase of each host's own."""

    def build(draw: np.random.Generator, size: Size) -> Work:
        spread = _around(draw, size, mean, _CALM)
        bursts = np.zeros_like(spread)
        for host in range(size.hosts):
            starts = np.arange(draw.uniform(0.0, period), size.seconds, period)
            starts = starts + draw.uniform(0.0, jitter, len(starts))
            _fill(bursts, spread, host, starts, np.full(len(starts), length))
        return Work(spread, bursts)

    return build


def sawtooth(low: float, high: float, period: float) -> Build:
    """A rise from ``low`` to ``high`` within ``period`` that falls at once, as memory collection makes it."""

    def build(draw: np.random.Generator, size: Size) -> Work:
        phase = (np.arange(size.seconds)[:, None] / period + draw.random(size.hosts)) % 1.0
        spread = _around(draw, size, 0.0, _CALM, floor=-1.0) + (low + (high - low) * phase)
        return Work(np.maximum(spread, 0.0).astype(np.float32), np.zeros_like(spread, np.float32))

    return build


def _around(draw: np.random.Generator, size: Size, mean: float, kind: Noise, floor: float = 0.0) -> Floats:
    values = mean + autoregressive(draw, size.seconds, size.hosts, kind)
    return np.maximum(values, floor).astype(np.float32)


def _fill(bursts: Floats, spread: Floats, host: int, starts: Doubles, lengths: Doubles) -> None:
    """Add what a host lacks to be full for the covered part of each second."""
    seconds = len(bursts)
    for start, length in zip(starts, lengths, strict=True):
        first, after = int(start), min(int(start + length) + 1, seconds)
        edges = np.arange(first, after + 1, dtype=np.float64)
        covered = np.diff(np.clip(edges, start, start + length))
        lacking = np.maximum(1.0 - spread[first:after, host], 0.0) * covered
        bursts[first:after, host] = np.maximum(bursts[first:after, host], lacking)


SCENARIOS: tuple[Scenario, ...] = (
    *(Scenario(f"noise {sd:g}", noise(0.6, sd), TRAINING) for sd in (0.02, 0.05, 0.1, 0.15)),
    *(Scenario(f"mean {mean:g}", noise(mean, 0.05), TRAINING) for mean in (0.5, 0.7, 0.8, 0.85)),
    *(Scenario(f"spikes to {s} s at 0.6", spikes(0.6, s), TRAINING) for s in (1, 3, 4)),
    Scenario("job of 5 s each 60 s at 0.6", periodic(0.6, 5.0, 60.0), TRAINING),
    *(Scenario(f"AR(0.9) 0.15 at {mean:g}", noise(mean, 0.15, 0.9)) for mean in (0.6, 0.7)),
    *(Scenario(f"spikes of 3 to {s} s at 0.6", spikes(0.6, s, shortest=3.0)) for s in (5, 6, 12, 30)),
    *(Scenario(f"spikes of 2 to 3 s at {mean:g}", spikes(mean, 3, shortest=2.0)) for mean in (0.7, 0.8)),
    *(Scenario(f"Pareto at {mean:g}", pareto(mean)) for mean in (0.6, 0.7)),
    Scenario("job of 5 s each 60 s at 0.7", periodic(0.7, 5.0, 60.0, jitter=3.0)),
    Scenario("job of 20 s each 600 s at 0.6", periodic(0.6, 20.0, 600.0, jitter=3.0)),
    Scenario("sawtooth 0.5 to 0.95 in 120 s", sawtooth(0.5, 0.95, 120.0)),
    Scenario("sawtooth 0.4 to 0.9 in 15 s", sawtooth(0.4, 0.9, 15.0)),
    *(Scenario(f"{n} cores at {mean:g}", noise(mean, 0.02), cores=n) for n, mean in ((4, 0.81), (64, 0.92))),
    *(Scenario(f"gaps of {part:.0%}", noise(0.6, 0.1, 0.7), gaps=part) for part in (0.01, 0.1)),
    *(Scenario(f"invalid {part:.0%}", noise(0.6, 0.1, 0.7), invalid=part) for part in (0.01, 0.1)),
    *(Scenario(f"interval {s} s", noise(0.6, 0.1, 0.7), interval=s) for s in (2, 5)),
)
