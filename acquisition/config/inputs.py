"""Settings of table [filter.inputs]: decision inputs beside the averages."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from acquisition.config.schema import Meta, Table
from acquisition.model.inputs import RECENT_TICKS, Span

_METRICS = (
    "host.cpu_busy_ratio", "host.memory_used_ratio", "host.network_used_ratio", "vms.cpu_ratio", "processes.cpu_ratio",
)  # fmt: skip
DEFAULT_THRESHOLDS = {**dict.fromkeys(_METRICS, 0.9), "host.cpu_waiting_ratio": 0.05}
DEFAULT_WINDOW, DEFAULT_COUNTED, DEFAULT_PLATEAU = Span(30.0, 10), Span(8.0, 4), Span(4.0, 2)
DEFAULT_ORDER_STATISTICS = ("host",)
DEFAULT_SLACKS = dict.fromkeys(_METRICS, 0.05)

Patterns = dict[str, float]
Seconds = Annotated[float, Meta(le=86400.0)]
Samples = Annotated[int, Meta(le=RECENT_TICKS)]


class Inputs(Table):
    """Decision inputs, computed at every tick: k of n above a threshold, time above it, lowest and highest recent
    value, CUSUM, the recent values, and optionally median, MAD and quartiles over a window. Windows are given in
    seconds, with a minimum number of samples for long intervals, and hold at most 120 samples. Metrics are named
    SET.METRIC; SET may be *, METRIC may contain * and ?; the first matching pattern applies. In addition to the
    metrics of docs/metrics.md there are host.cpu_busy_ratio, host.cpu_waiting_ratio, host.memory_used_ratio and
    host.network_used_ratio."""

    enabled: Annotated[bool, Meta(description="false disables it")] = True
    window_seconds: Annotated[
        Seconds, Meta(gt=0, description="window of median, MAD, quartiles and of the count of valid samples (n)")
    ] = DEFAULT_WINDOW.seconds
    window_least: Annotated[
        Samples, Meta(ge=2, description="minimum number of samples in the window, whatever the interval")
    ] = DEFAULT_WINDOW.least
    counted_seconds: Annotated[
        Seconds, Meta(gt=0, description="window in which samples above the threshold are counted (k of n)")
    ] = DEFAULT_COUNTED.seconds
    counted_least: Annotated[
        Samples, Meta(ge=1, description="minimum number of samples for k of n, whatever the interval")
    ] = DEFAULT_COUNTED.least
    plateau_seconds: Annotated[
        Seconds, Meta(ge=0, description="window of the lowest and highest valid value; 0: disabled")
    ] = DEFAULT_PLATEAU.seconds
    plateau_least: Annotated[
        Samples, Meta(ge=2, description="minimum number of samples of the plateau, whatever the interval")
    ] = DEFAULT_PLATEAU.least
    order_statistics: Annotated[list[str], Meta(description="resource sets with median, MAD and quartiles; *: all")] = (
        field(default_factory=lambda: list(DEFAULT_ORDER_STATISTICS))
    )
    thresholds: Annotated[
        Patterns,
        Meta(description="thresholds by metric, in its unit; a metric without a threshold has no such figures"),
    ] = field(default_factory=lambda: dict(DEFAULT_THRESHOLDS))
    slacks: Annotated[
        Patterns, Meta(description="slack K of CUSUM by metric, in its unit; 0 for all other metrics")
    ] = field(default_factory=lambda: dict(DEFAULT_SLACKS))
