"""Sparklines: one character per value, a question mark for a missing one.

A missing value is never a low bar.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-=+*#@"  #: for terminals without UTF-8
MISSING = "?"

_UNIT_HIGH = {"ratio": 1.0, "cores": 1.0}


def full_height(unit: str) -> float:
    """Minimum value of full height: the noise of an idle core is not a peak."""
    return _UNIT_HIGH.get(unit, 0.0)


def bars(values: Iterable[float], high: float = 0.0, levels: str = BLOCKS) -> str:
    """One of ``levels`` per value, between zero (or the lowest) and ``high`` (or the highest, if larger);
    a non-finite value is missing."""
    numbers = list(values)
    known = [value for value in numbers if math.isfinite(value)]
    if not known:
        return MISSING * len(numbers)
    low, high = min(0.0, *known), max(high, *known)
    span, top = high - low, len(levels) - 1
    if span <= 0:
        return "".join(levels[0] if math.isfinite(value) else MISSING for value in numbers)
    return "".join(
        levels[min(top, int((value - low) / span * len(levels)))] if math.isfinite(value) else MISSING
        for value in numbers
    )
