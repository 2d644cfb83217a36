"""Scores of alarms, each with a 95% confidence interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from experiments.decisions.scenarios import Step
from experiments.simulation.arrays import Bools, Doubles

_DRAWS, _SEED = 1000, 1


class Interval(NamedTuple):
    """A figure with the bounds of its interval; None if nothing was measured."""

    value: float | None
    low: float | None = None
    high: float | None = None


def rising(hot: Bools) -> Bools:
    """Mask (T, H) of seconds in which an alarm begins; one active in the first second begins there."""
    found = hot.copy()
    found[1:] &= ~hot[:-1]
    return found


def delay(step: Step, hot: Bools) -> float:
    """Seconds from the onset of a step to the end of the second in which its host becomes hot: 0 if it was hot before,
    infinite if it does not become hot during the step."""
    first = int(step.start)
    if first and hot[first - 1, step.host]:
        return 0.0
    found = np.flatnonzero(hot[first : step.after, step.host])
    return first + float(found[0]) + 1.0 - step.start if len(found) else math.inf


def rate(counts: Doubles, hours_each: float, per: float = 100.0) -> Interval:
    """Events per ``per`` hours, from counts of hosts watched for ``hours_each``.

    The wider of the exact Poisson interval and the bootstrap over hosts, as events occur in clusters.
    """
    hours = hours_each * len(counts)
    if not hours:
        return Interval(None)
    total, scale = int(counts.sum()), per / hours
    low, high = _poisson(total)
    drawn = _draws(counts).sum(axis=1)
    low, high = min(low, float(np.percentile(drawn, 2.5))), max(high, float(np.percentile(drawn, 97.5)))
    return Interval(_round(total * scale), _round(low * scale), _round(high * scale))


def mean(values: Sequence[float] | Doubles) -> Interval:
    """The mean over runs with its bootstrap interval; a single run has none."""
    known = np.asarray(values, np.float64)
    if len(known) < 2:
        return Interval(_round(known[0]) if len(known) else None)
    drawn = _draws(known).mean(axis=1)
    return Interval(_round(known.mean()), _round(np.percentile(drawn, 2.5)), _round(np.percentile(drawn, 97.5)))


def percentile(values: Sequence[float], part: float) -> Interval:
    """A percentile with its bootstrap interval; None if it falls on an infinite value."""
    known = np.asarray(values, np.float64)
    if not len(known):
        return Interval(None)
    drawn = np.percentile(_draws(known), part, axis=1, method="higher")
    ends = np.percentile(drawn, (2.5, 97.5), method="higher")
    found = (float(np.percentile(known, part, method="higher")), *ends.tolist())
    return Interval(*(_round(each) if math.isfinite(each) else None for each in found))


def _draws(values: Doubles) -> Doubles:
    draw = np.random.default_rng(_SEED)
    return values[draw.integers(len(values), size=(_DRAWS, len(values)))]


def _poisson(count: int) -> tuple[float, float]:
    """The exact interval of a Poisson mean (Garwood 1936), by bisection of its distribution."""
    low = 0.0 if not count else _solve(lambda mean: 1.0 - _below(count, mean) - 0.025, count)
    return low, _solve(lambda mean: 0.025 - _below(count + 1, mean), count)


def _below(count: int, mean: float) -> float:
    """Probability of fewer than ``count`` events."""
    return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count))


def _solve(rises: Callable[[float], float], count: int) -> float:
    low, high = 1e-9, count + 6.0 * math.sqrt(count + 1.0) + 10.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rises(middle) < 0.0 else (low, middle)
    return high


def _round(value: float) -> float:
    return round(float(value), 3)
