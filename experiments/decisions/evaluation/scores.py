"""Scores of alarms, each with a confidence interval of 95%."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from experiments.decisions.evaluation.truth import Truth, onsets
from experiments.decisions.load import Bools
from experiments.decisions.monitor import Doubles

_DRAWS, _SEED = 1000, 1


class Interval(NamedTuple):
    """A figure with the ends of its interval; None where nothing was measured."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Delays(NamedTuple):
    """``seconds`` from overloads to their alarms, 0 where the host was hot before; ``missed`` had none."""

    seconds: list[float]
    missed: int


def delays(hot: Bools, truth: Truth, first: int = 0) -> Delays:
    """The delays of overloads from second ``first`` on. The verdict of a second is there when it is over."""
    found, missed = list[float](), 0
    for each in onsets(truth):
        if each.first < first:
            continue
        alarms = np.flatnonzero(hot[each.first : each.after, each.host])
        if not len(alarms):
            missed += 1
        else:
            found.append(0.0 if alarms[0] == 0 and each.first and hot[each.first - 1, each.host] else alarms[0] + 1.0)
    return Delays(found, missed)


def rate(counts: Doubles, hours_each: float, per: float = 100.0) -> Interval:
    """Events per ``per`` hours from the counts of hosts that were each watched for so long.

    The wider of the exact Poisson interval and the bootstrap over hosts, whose events come in clusters.
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
    """The mean of runs, with the bootstrap interval over them."""
    known = np.asarray(values, np.float64)
    if not len(known):
        return Interval(None)
    drawn = _draws(known).mean(axis=1)
    return Interval(_round(known.mean()), _round(np.percentile(drawn, 2.5)), _round(np.percentile(drawn, 97.5)))


def percentile(values: Sequence[float], part: float) -> Interval:
    """A percentile with its bootstrap interval."""
    known = np.asarray(values, np.float64)
    if not len(known):
        return Interval(None)
    drawn = np.percentile(_draws(known), part, axis=1)
    ends = np.percentile(drawn, (2.5, 97.5))
    return Interval(_round(np.percentile(known, part)), _round(ends[0]), _round(ends[1]))


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
