"""Rules of ``filters.decisions``, vectorised over hosts.

The pure rules judge one host; a run of an hour has 100 hosts x 3,600 ticks x dozens of settings. Each
function here is its rule over a Monitor, with the rule's own Parameters; tests hold them equal on
random histories. They answer the verdicts and by how much each host is above its limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from acquisition.config.inputs import DEFAULT_WINDOW
from experiments.decisions.load import Bools
from experiments.decisions.monitor import Doubles, Monitor
from filters.decisions.overload_detection import (
    cusum,
    neat_iqr,
    neat_regression,
    rule_inputs,
    sandpiper,
    spread,
    threshold,
)
from filters.decisions.overload_detection.neat_regression import tricube
from filters.decisions.overload_detection.rule import Parameters

WINDOW = round(DEFAULT_WINDOW.seconds)  #: whose upper quartile the threshold rule looks at


class Verdicts(NamedTuple):
    """``hot`` and ``abstained`` (H,), never both; ``excess`` (H,) as in filters.decisions.verdict."""

    hot: Bools
    abstained: Bools
    excess: Doubles


def _unusable(monitor: Monitor, parameters: Parameters) -> Bools:
    """Where ``filters.decisions.overload_detection.rule_inputs.usable`` abstained."""
    stale = monitor.stale > rule_inputs.stale_limit(parameters, float(monitor.watch.interval))
    return stale if parameters.smoothed else stale | ~monitor.valid


def _level(monitor: Monitor, parameters: Parameters) -> Doubles:
    return monitor.mean if parameters.smoothed else monitor.last


def _verdicts(hot: Bools, abstained: Bools, excess: Doubles) -> Verdicts:
    return Verdicts(hot & ~abstained, abstained, excess)


def by_threshold(monitor: Monitor, parameters: threshold.Parameters, was_hot: Bools) -> Verdicts:
    """filters.decisions.overload_detection.threshold."""
    level = _level(monitor, parameters)
    enter = parameters.high if parameters.enter is None else parameters.enter
    rises = level > enter
    lasts = level > parameters.low
    warming = ~was_hot & rises & (monitor.count < parameters.n) & (parameters.k > 0)
    excess = level - np.where(was_hot, parameters.low, enter)
    if parameters.k:
        above = _above(monitor, parameters.high, parameters.n)
        long_ago = was_hot & lasts & (above < 1) & ~_was_above(monitor, parameters)
        excess = np.where(long_ago, level - parameters.high, excess)
        rises, lasts = rises & (above >= parameters.k), lasts & ~long_ago
    hot = np.where(was_hot, lasts, rises & ~warming)
    if parameters.plateau:
        lowest, highest = _extremes(monitor, parameters.plateau)
        known = monitor.count >= parameters.plateau
        flat = known & (lowest > parameters.high) & (highest - lowest < parameters.plateau_range)
        excess = np.where(flat & ~hot, lowest - parameters.high, excess)
        warming = (warming | ~known) & ~hot & ~flat
        hot = hot | flat
    return _verdicts(hot, _unusable(monitor, parameters) | warming, excess)


def _was_above(monitor: Monitor, parameters: threshold.Parameters) -> Bools:
    """Where (H,) the window was above ``high`` for a quarter of it, or there is too little data."""
    known = monitor.count >= WINDOW
    upper = monitor.figure(("upper", WINDOW), lambda: np.percentile(monitor.recent[:, -WINDOW:], 75, axis=1))
    return np.where(known, upper > parameters.high, monitor.count < parameters.n)


def _above(monitor: Monitor, high: float, count: int) -> Doubles:
    """How many (H,) of the last ``count`` values exceed ``high``; those that never were do not."""
    return monitor.figure(("above", high, count), lambda: (monitor.recent[:, -count:] > high).sum(1))


def _extremes(monitor: Monitor, count: int) -> tuple[Doubles, Doubles]:
    """Lowest and highest (H,) of the last ``count`` values; NaN where there were fewer."""
    values = monitor.recent[:, -count:]
    lowest = monitor.figure(("lowest", count), lambda: values.min(1))
    return lowest, monitor.figure(("highest", count), lambda: values.max(1))


def by_sandpiper(monitor: Monitor, parameters: sandpiper.Parameters, _was_hot: Bools) -> Verdicts:
    """filters.decisions.overload_detection.sandpiper, of one metric."""
    values = _values(monitor, parameters)
    key = ("prediction", parameters.smoothed, parameters.window, parameters.predictor)
    predicted = monitor.figure(key, lambda: predict(values, parameters.predictor == "onward"))
    above = (values[:, -parameters.n :] > parameters.threshold).sum(1)
    abstained = _unusable(monitor, parameters) | (monitor.count < parameters.window)
    hot = (above >= parameters.k) & (predicted > parameters.threshold)
    return _verdicts(hot, abstained, predicted - parameters.threshold)


def predict(values: Doubles, onward: bool) -> Doubles:
    """Sandpiper's prediction (H,) of the value after each window (H, n)."""
    mean = values.mean(1)
    offsets = values - mean[:, None]
    power = (offsets[:, :-1] ** 2).sum(1)
    constant = power <= values.shape[1] * (1e-9 * np.maximum(1.0, np.abs(mean))) ** 2
    joint = (offsets[:, 1:] * offsets[:, :-1]).sum(1)
    phi = np.where(constant, 0.0, joint / np.where(constant, 1.0, power))
    predicted: Doubles = (values[:, -1] if onward else mean) + phi * offsets[:, -1]
    return predicted


def by_mad(monitor: Monitor, parameters: spread.Parameters, _was_hot: Bools) -> Verdicts:
    """filters.decisions.overload_detection.neat_mad."""
    values = monitor.recent[:, -parameters.window :]
    return _by_spread(monitor, parameters, monitor.figure(("mad", parameters.window), lambda: deviation(values)))


def deviation(values: Doubles) -> Doubles:
    """The median absolute deviation (H,) of each window (H, n)."""
    distances = np.abs(values - np.median(values, axis=1, keepdims=True))
    return np.asarray(np.median(distances, axis=1))


def by_iqr(monitor: Monitor, parameters: neat_iqr.Parameters, _was_hot: Bools) -> Verdicts:
    """filters.decisions.overload_detection.neat_iqr."""
    values = monitor.recent[:, -parameters.window :]
    return _by_spread(monitor, parameters, monitor.figure(("iqr", parameters.window), lambda: quartile_range(values)))


def quartile_range(values: Doubles) -> Doubles:
    """The interquartile range (H,) of each window (H, n)."""
    first, third = np.percentile(values, (25, 75), axis=1)
    return np.asarray(third - first)


def _by_spread(monitor: Monitor, parameters: spread.Parameters, width: Doubles) -> Verdicts:
    excess = _level(monitor, parameters) - (1.0 - parameters.safety * width)
    return _verdicts(excess >= 0.0, _unusable(monitor, parameters) | (monitor.count < parameters.window), excess)


def by_regression(monitor: Monitor, parameters: neat_regression.Parameters, _was_hot: Bools) -> Verdicts:
    """filters.decisions.overload_detection.neat_regression."""
    values = _values(monitor, parameters)
    ahead = parameters.window + parameters.migration_seconds / monitor.watch.interval
    predicted = monitor.figure(("line", parameters.smoothed, parameters.window, ahead), lambda: extend(values, ahead))
    excess = parameters.safety * predicted - parameters.threshold
    return _verdicts(excess >= 0.0, _unusable(monitor, parameters) | (monitor.count < parameters.window), excess)


def extend(values: Doubles, ahead: float) -> Doubles:
    """The value (H,) at x = ``ahead`` of the line through each window (H, n) at x = 1 ... n."""
    count = values.shape[1]
    weights = np.asarray(tricube(count))
    at = np.arange(1.0, count + 1.0)
    middle = (weights * at).sum() / weights.sum()
    mean = values @ weights / weights.sum()
    pull = weights * (at - middle)
    slope = (values - mean[:, None]) @ pull / (pull * (at - middle)).sum()
    return np.asarray(mean + slope * (ahead - middle))


def _values(monitor: Monitor, parameters: Any) -> Doubles:
    return (monitor.means if parameters.smoothed else monitor.recent)[:, -parameters.window :]


def by_cusum(monitor: Monitor, parameters: cusum.Parameters, _was_hot: Bools) -> Verdicts:
    """filters.decisions.overload_detection.cusum, with d as the filter keeps it for K = ``drift``."""
    kept = int(np.flatnonzero(monitor.drifts == parameters.drift)[0])
    d = monitor.cusum[kept]
    hot = (d > parameters.limit) & (_level(monitor, parameters) > parameters.level)
    abstained = _unusable(monitor, parameters) | (monitor.count < parameters.window)
    return _verdicts(hot, abstained, d - parameters.limit)


Judge = Callable[[Monitor, Any, Bools], Verdicts]

RULES: dict[str, Judge] = {
    "threshold": by_threshold,
    "sandpiper": by_sandpiper,
    "neat_mad": by_mad,
    "neat_iqr": by_iqr,
    "neat_regression": by_regression,
    "cusum": by_cusum,
}


def window_of(parameters: Any) -> int:
    """How many values a rule with these parameters looks at."""
    least = WINDOW if isinstance(parameters, threshold.Parameters) else 0
    return int(max(least, *(getattr(parameters, name, None) or 0 for name in ("window", "n", "plateau"))))


def drifts_of(every: list[Any]) -> tuple[float, ...]:
    """The K that a Monitor must keep for these settings of rules."""
    return tuple(sorted({float(each.drift) for each in every if isinstance(each, cusum.Parameters)}))
