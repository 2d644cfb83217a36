"""The table [filter.inputs]: what decision rules ask beside the moving averages."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from acquisition.config.base import Table
from acquisition.model.inputs import RECENT_TICKS

_METRICS = (
    "host.cpu_busy_ratio", "host.memory_used_ratio", "host.network_used_ratio", "vms.cpu_ratio", "processes.cpu_ratio",
)  # fmt: skip
DEFAULT_THRESHOLDS = dict.fromkeys(_METRICS, 0.9)
DEFAULT_COUNTED = 8
DEFAULT_PLATEAU = 4
DEFAULT_SLACKS = dict.fromkeys(_METRICS, 0.05)

Patterns = dict[str, float]


class Inputs(Table, frozen=True):
    """Figures for decision rules, computed at every tick: k of n above a threshold, time above it, lowest and highest
    of the last few values, CUSUM, median, MAD and quartiles over a window, and the recent values. Metrics are named
    SET.METRIC; SET may be *, METRIC may hold * and ?; the first pattern that fits counts. Besides those of
    docs/metrics.md there are the derived metrics host.cpu_busy_ratio, host.memory_used_ratio and
    host.network_used_ratio."""

    enabled: Annotated[bool, Meta(description="false switches it off")] = True
    window: Annotated[
        int, Meta(ge=2, le=RECENT_TICKS, description="ticks that median, MAD and quartiles look back on (n)")
    ] = 30
    counted: Annotated[
        int, Meta(ge=1, le=RECENT_TICKS, description="ticks of which those above the threshold are counted (k of n)")
    ] = DEFAULT_COUNTED
    plateau: Annotated[
        int, Meta(ge=0, le=RECENT_TICKS, description="valid values whose lowest and highest are kept; 0: none")
    ] = DEFAULT_PLATEAU
    thresholds: Annotated[
        Patterns, Meta(description="which metrics have these figures, and their thresholds in the metric's unit")
    ] = field(default_factory=lambda: dict(DEFAULT_THRESHOLDS))
    slacks: Annotated[
        Patterns, Meta(description="slack K of CUSUM in the metric's unit, 0 for a metric that none of these fits")
    ] = field(default_factory=lambda: dict(DEFAULT_SLACKS))
