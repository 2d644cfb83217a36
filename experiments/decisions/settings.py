"""Settings of rules tried by training, for each way of watching (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from experiments.decisions.truth import HEALTHY
from experiments.decisions.watch import Watch
from filters.decisions.overload_detection import cusum, neat_iqr, neat_regression, sandpiper, spread, threshold
from filters.decisions.picture import CPU

#: (k, n) that a way of watching can afford: the interval of its samples times k is a delay.
_COUNTS = {
    1: ((1, 1), (3, 5), (4, 4), (4, 6), (5, 5), (5, 6)),
    10: ((1, 1), (2, 2), (2, 3)),
    300: ((1, 1),),
}
_COUNTS_BESIDE_PLATEAU = ((5, 6), (6, 8))  #: (k, n) of what a plateau does not tell
_WINDOWS = {1: (10, 30, 60), 10: (12, 30), 300: (12,)}
_HYSTERESIS = 0.05
_ENTERS = (0.06, 0.08, 0.1)  #: below ``high``: what the average must have reached while raw values tell
_PLATEAU = 4  #: as many whole samples as five seconds hold, wherever between two of them a load rises
_RANGES = (0.06, 0.07, 0.08)
_LOWEST = HEALTHY  #: an alarm that stood below that would stand on a healthy host


def grid(watch: Watch, rule: str) -> list[Any]:
    """All settings of a rule; none where it makes no sense (a CUSUM needs a moving average to start from)."""
    common = {"smoothed": watch.smoothed, "stale_seconds": 3.0 * watch.interval}
    return list(_GRIDS[rule](watch, common))


def _threshold(watch: Watch, common: dict[str, Any]) -> Iterator[Any]:
    highs = (0.8, 0.82, 0.84, 0.86, 0.88, 0.9) if watch.interval > 1 else (0.8, 0.84, 0.86, 0.88, 0.9)
    for high, (k, n) in product(highs, _COUNTS[watch.interval]):
        counted = common | {"high": high, "k": k, "n": n, "plateau": None}
        yield threshold.Parameters(**counted, low=round(high - _HYSTERESIS, 3), enter=None)
        for enter in _enters(watch, high) if k > 1 else ():
            yield threshold.Parameters(**counted, low=enter, enter=enter)
    yield from _with_plateau(watch, common)


def _with_plateau(watch: Watch, common: dict[str, Any]) -> Iterator[Any]:
    """The same with a plateau, of values of one second: four longer ones last too long."""
    if watch.interval > 1:
        return
    for high, (k, n), apart in product((0.86, 0.88, 0.9), _COUNTS_BESIDE_PLATEAU, _RANGES):
        counted = common | {"high": high, "k": k, "n": n, "plateau": _PLATEAU, "plateau_range": apart}
        if not watch.smoothed:
            yield threshold.Parameters(**counted, low=round(high - _HYSTERESIS, 3), enter=None)
        for enter in _enters(watch, high):
            yield threshold.Parameters(**counted, low=enter, enter=enter)


def _enters(watch: Watch, high: float) -> list[float]:
    enters = [round(high - lower, 3) for lower in _ENTERS] if watch.smoothed else []
    return [enter for enter in enters if enter >= _LOWEST]


def _sandpiper(watch: Watch, common: dict[str, Any]) -> Iterator[Any]:
    counts = [each for each in _COUNTS[watch.interval] if each in ((3, 5), (4, 4), (5, 5), (5, 6)) or each[0] < 3]
    levels, windows = (0.75, 0.8, 0.85, 0.9), _WINDOWS[watch.interval][:2]
    for level, (k, n), window in product(levels, counts, windows):
        for predictor in ("onward", "reverting"):
            yield sandpiper.Parameters(
                **common, metrics=(CPU,), threshold=level, k=k, n=n, window=max(n, window), predictor=predictor
            )


def _mad(watch: Watch, common: dict[str, Any]) -> Iterator[Any]:
    for safety, window in product((0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0), _WINDOWS[watch.interval]):
        yield spread.Parameters(**common, safety=safety, window=window)


def _iqr(watch: Watch, common: dict[str, Any]) -> Iterator[Any]:
    for safety, window in product((0.125, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5), _WINDOWS[watch.interval]):
        yield neat_iqr.Parameters(**common, safety=safety, window=window)


def _regression(watch: Watch, common: dict[str, Any]) -> Iterator[Any]:
    for safety, window in product((0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2), _WINDOWS[watch.interval]):
        yield neat_regression.Parameters(**common, safety=safety, window=window)


def _cusum(watch: Watch, common: dict[str, Any]) -> Iterator[Any]:
    if watch.smoothed:
        for limit, drift, level in product((0.3, 0.6, 1.0, 1.5, 2.5), (0.05, 0.1, 0.15), (0.0, 0.8, 0.85, 0.9)):
            yield cusum.Parameters(**common, limit=limit, drift=drift, level=level)


_GRIDS = {
    "threshold": _threshold,
    "sandpiper": _sandpiper,
    "neat_mad": _mad,
    "neat_iqr": _iqr,
    "neat_regression": _regression,
    "cusum": _cusum,
}
