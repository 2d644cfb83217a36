"""Order statistics of a window: median, MAD and quartiles (pure).

Requires at least one value, all finite.
"""

from __future__ import annotations

from collections.abc import Sequence


def quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile by linear interpolation between the two nearest ranks (definition 7 of Hyndman and Fan,
    The American Statistician 50, 1996; numpy's default). ``ordered`` is ascending."""
    place = share * (len(ordered) - 1)
    low = int(place)
    if low + 1 >= len(ordered):
        return ordered[low]
    part = place - low
    return ordered[low] * (1.0 - part) + ordered[low + 1] * part


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones."""
    return quantile(sorted(values), 0.5)


def median_absolute_deviation(values: Sequence[float]) -> float:
    """The median of the distances from the median, without a scale factor."""
    middle = median(values)
    return median([abs(value - middle) for value in values])


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and third quartile."""
    ordered = sorted(values)
    return quantile(ordered, 0.25), quantile(ordered, 0.75)
