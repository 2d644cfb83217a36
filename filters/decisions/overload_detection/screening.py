"""What screens of rules may take from a column: ``rule_inputs`` for all hosts at once (pure)."""

from __future__ import annotations

import numpy as np

from acquisition.snapshot.column import Bools, Column, Doubles
from filters.decisions.overload_detection.rule import Parameters


def usable(column: Column, parameters: Parameters) -> Bools:
    """Where ``rule_inputs.usable`` certainly gives a reading, (N,)."""
    fresh = column.known & (column.stale_seconds <= parameters.stale_seconds)
    return np.asarray(fresh & np.isfinite(level(column, parameters)))


def level(column: Column, parameters: Parameters) -> Doubles:
    """``rule_inputs.level`` (N,): the moving average, or the raw value where it is valid; NaN where there is none."""
    return column.mean if parameters.smoothed else column.last


def counts(column: Column, threshold: float, count: int) -> Bools:
    """Where ``rule_inputs.above`` is what the filter has counted among exactly ``count`` valid values, (N,)."""
    planes = column.planes
    same = np.abs(planes["threshold"] - threshold) <= 1e-6 * np.maximum(np.abs(planes["threshold"]), abs(threshold))
    return np.asarray(same & (planes["counted_of"] == count) & (planes["counted"] == count))


def enough(column: Column) -> Bools:
    """``rule_inputs.enough`` (N,)."""
    return np.asarray(~column.warming & (2 * column.planes["valid"] >= column.planes["window"]))
