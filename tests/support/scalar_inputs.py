"""Scalar reference of decision inputs: plain Python, from their formulas.

It steps one metric of one entity.

Slow and obvious on purpose; the batched float32 arithmetic of ``filters.worker.inputs`` is compared with it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import NamedTuple

from acquisition.model import codes


class Seen(NamedTuple):
    """One tick of one entity, or None in its place where the tick never came."""

    value: float
    code: int
    mean_before: float  #: the moving average before the value, NaN where there was none
    seconds: float  #: that the sample stands for


def usable(seen: Seen | None) -> bool:
    return seen is not None and seen.code & codes.CODE_MASK == codes.VALID and abs(seen.value) <= 1e18


def quantile(values: list[float], q: float) -> float:
    """Type 7 of Hyndman and Fan: linear interpolation between order statistics."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * q
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def figures(
    history: list[Seen | None], window: int, counted: int, plateau: int, threshold: float, slack: float
) -> dict[str, float | None]:
    """All figures after ``history``, which begins with the first tick that they know of."""
    valid = [seen.value for seen in history[-window:] if seen is not None and usable(seen)]
    lately = [seen.value for seen in history[-counted:] if seen is not None and usable(seen)]
    median = statistics.median(valid) if valid else None
    return {
        "valid": len(valid),
        "counted": len(lately),
        "above": sum(value > threshold for value in lately),
        "median": median,
        "mad": statistics.median(abs(value - median) for value in valid) if median is not None else None,
        "q1": quantile(valid, 0.25) if valid else None,
        "q3": quantile(valid, 0.75) if valid else None,
        "time_above": time_above(history, threshold),
        "cusum": cusum(history, slack),
        "seen": min(window, len(history)),
        **dict(zip(("lowest", "highest"), extremes(valid, plateau), strict=True)),
    }


def extremes(valid: list[float], plateau: int) -> tuple[float | None, float | None]:
    """Of the last ``plateau`` of the window's valid values."""
    last = valid[-plateau:]
    return (min(last), max(last)) if plateau and len(last) == plateau else (None, None)


def time_above(history: Iterable[Seen | None], threshold: float) -> float:
    seconds = 0.0
    for seen in history:
        if seen is not None and usable(seen):
            seconds = seconds + seen.seconds if seen.value > threshold else 0.0
    return seconds


def cusum(history: Iterable[Seen | None], slack: float) -> float:
    d = 0.0
    for seen in history:
        if seen is not None and usable(seen):
            d = 0.0 if math.isnan(seen.mean_before) else max(0.0, d + seen.value - seen.mean_before - slack)
    return d
