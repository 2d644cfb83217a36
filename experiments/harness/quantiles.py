"""Small arithmetic on measured figures: percentiles of one run, medians over repeats."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """p50, p99 and max; None of each without any value."""
    if not values:
        return {"p50": None, "p99": None, "max": None}
    p50, p99, most = np.percentile(np.asarray(values), [50, 99, 100])
    return {"p50": round(float(p50), 3), "p99": round(float(p99), 3), "max": round(float(most), 3)}


def medians(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The median of every number in JSON objects of one shape, nested ones included; what is no
    number is taken from the first."""
    return {key: _median([document.get(key) for document in documents]) for key in documents[0]}


def _median(values: list[Any]) -> Any:
    if all(isinstance(value, dict) for value in values):
        return medians(values)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        middle = median(values)
        return int(middle) if all(isinstance(value, int) for value in values) else middle
    return values[0]
