"""The table [filter.inputs]: what decision rules ask beside the moving averages."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from acquisition.config.schema import Meta, Table
from acquisition.model.inputs import RECENT_TICKS, Span

_METRICS = (
    "host.cpu_busy_ratio", "host.memory_used_ratio", "host.network_used_ratio", "vms.cpu_ratio", "processes.cpu_ratio",
)  # fmt: skip
DEFAULT_THRESHOLDS = dict.fromkeys(_METRICS, 0.9)
DEFAULT_WINDOW, DEFAULT_COUNTED, DEFAULT_PLATEAU = Span(30.0, 10), Span(8.0, 4), Span(4.0, 2)
DEFAULT_ORDER_STATISTICS = ("host",)
DEFAULT_SLACKS = dict.fromkeys(_METRICS, 0.05)

Patterns = dict[str, float]
Seconds = Annotated[float, Meta(le=86400.0)]
Samples = Annotated[int, Meta(le=RECENT_TICKS)]


class Inputs(Table):
    """Figures for decision rules, computed at every tick: k of n above a threshold, time above it, lowest and highest
    of the last few values, CUSUM, the recent values, and where configured median, MAD and quartiles over a window.
    Windows are of seconds, with a least number of samples where ticks are far apart, and of at most 120 samples.
    Metrics are named SET.METRIC; SET may be *, METRIC may hold * and ?; the first pattern that fits counts. Besides
    those of docs/metrics.md there are the derived metrics host.cpu_busy_ratio, host.memory_used_ratio and
    host.network_used_ratio."""

    enabled: Annotated[bool, Meta(description="false switches it off")] = True
    window_seconds: Annotated[
        Seconds, Meta(gt=0, description="how far median, MAD, quartiles and valid samples look back (n)")
    ] = DEFAULT_WINDOW.seconds
    window_least: Annotated[
        Samples, Meta(ge=2, description="samples that the window holds however long the interval")
    ] = DEFAULT_WINDOW.least
    counted_seconds: Annotated[
        Seconds, Meta(gt=0, description="of which the samples above the threshold are counted (k of n)")
    ] = DEFAULT_COUNTED.seconds
    counted_least: Annotated[Samples, Meta(ge=1, description="samples of k of n however long the interval")] = (
        DEFAULT_COUNTED.least
    )
    plateau_seconds: Annotated[
        Seconds, Meta(ge=0, description="of valid values whose lowest and highest are kept; 0: none")
    ] = DEFAULT_PLATEAU.seconds
    plateau_least: Annotated[Samples, Meta(ge=2, description="samples of the plateau however long the interval")] = (
        DEFAULT_PLATEAU.least
    )
    order_statistics: Annotated[
        list[str], Meta(description="resource sets that have median, MAD and quartiles; *: all")
    ] = field(default_factory=lambda: list(DEFAULT_ORDER_STATISTICS))
    thresholds: Annotated[
        Patterns, Meta(description="which metrics have these figures, and their thresholds in the metric's unit")
    ] = field(default_factory=lambda: dict(DEFAULT_THRESHOLDS))
    slacks: Annotated[
        Patterns, Meta(description="slack K of CUSUM in the metric's unit, 0 for a metric that none of these fits")
    ] = field(default_factory=lambda: dict(DEFAULT_SLACKS))
