"""Quantiles of one run, medians over repeats."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

_PERCENTILES = {"p50": 50, "p95": 95, "p99": 99, "max": 100}


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """p50, p95, p99 and max; None of each without any value."""
    if not values:
        return dict.fromkeys(_PERCENTILES)
    found = np.percentile(np.asarray(values), list(_PERCENTILES.values()))
    return {name: round(float(value), 3) for name, value in zip(_PERCENTILES, found, strict=True)}


def medians(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The median of every number in JSON objects of one shape, nested ones included; other values are taken from the
    first."""
    return {key: _median([document.get(key) for document in documents]) for key in documents[0]}


def _median(values: list[Any]) -> Any:
    if all(isinstance(value, dict) for value in values):
        return medians(values)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        middle = median(values)
        return int(middle) if all(isinstance(value, int) for value in values) else middle
    return values[0]
