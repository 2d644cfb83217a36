"""Noise components of synthetic load, as means over one-second ticks.

What happens within a second is exact: an event or a spike that begins in the middle of a tick changes half
of it, as CPU counters would show. So a sample may be taken at any phase of an event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.decisions.load import Floats

_APART = 10.0  #: seconds between two spikes at least: two that merge would be one of more than ``longest``


class Noise(NamedTuple):
    """``deviation`` (stationary) and lag-1 ``correlation`` of the AR(1) of a host, and its spikes to 1.0 of
    ``shortest`` to ``longest`` seconds, evenly distributed."""

    deviation: float = 0.1
    correlation: float = 0.5
    spikes_per_hour: int = 10
    shortest: float = 0.5
    longest: float = 3.0


#: Load whose level can be seen with the naked eye: a step in it is a step.
CALM = Noise(deviation=0.02, spikes_per_hour=0)


def autoregressive(generator: np.random.Generator, ticks: int, series: int, noise: Noise) -> Floats:
    """AR(1) of (ticks, series): x' = phi x + e, stationary from the first tick on, with sd ``deviation``."""
    phi = np.float32(noise.correlation)
    values = generator.standard_normal((ticks, series), dtype=np.float32) * np.float32(noise.deviation)
    values[1:] *= np.sqrt(1.0 - phi * phi)
    for tick in range(1, ticks):
        values[tick] += phi * values[tick - 1]
    return values


class Spike(NamedTuple):
    """One spike: host, first tick, and which part of each tick it covers."""

    host: int
    tick: int
    covered: npt.NDArray[np.float64]


def spikes(generator: np.random.Generator, ticks: int, hosts: int, noise: Noise) -> list[Spike]:
    """The spikes of all hosts: ``spikes_per_hour`` in every hour, at least ten seconds apart."""
    count = round(noise.spikes_per_hour * ticks / 3600)
    gap = _APART + noise.longest
    room = ticks - count * gap - gap
    if count == 0 or room <= 0:
        return []
    found = []
    for host in range(hosts):
        starts = np.sort(generator.uniform(0.0, room, count)) + gap * np.arange(count)
        lengths = generator.uniform(noise.shortest, noise.longest, count)
        found += [_spike(host, start, length) for start, length in zip(starts, lengths, strict=True)]
    return found


def _spike(host: int, start: float, length: float) -> Spike:
    first, last = int(start), int(start + length)
    edges = np.arange(first, last + 2, dtype=np.float64)
    return Spike(host, first, np.diff(np.clip(edges, start, start + length)))


class Event(NamedTuple):
    """A rise of ``height`` on a host that takes ``rise`` s, stays for ``hold`` s and takes ``fall`` s to end."""

    host: int
    start: float
    rise: float
    hold: float
    fall: float
    height: float


def profile(event: Event, ticks: int) -> npt.NDArray[np.float64]:
    """The event over all ticks, each the exact mean over its second."""
    edges = np.arange(ticks + 1, dtype=np.float64)
    end = event.start + event.rise + event.hold
    area = _ramp_area(edges - event.start, event.rise) - _ramp_area(edges - end, event.fall)
    return event.height * np.diff(area)


def _ramp_area(since: npt.NDArray[np.float64], length: float) -> npt.NDArray[np.float64]:
    """The area from 0 to ``since`` under a ramp from 0 to 1 of ``length`` s, followed by 1."""
    inside = np.clip(since, 0.0, length)
    return (inside * inside / (2.0 * length) if length > 0.0 else 0.0) + np.maximum(since - length, 0.0)
