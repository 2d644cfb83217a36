"""Decision inputs of one metric of one entity at one tick.

A light module of plain values: ``filters.worker.inputs`` computes them, and
``acquisition.wire.records.inputs`` carries them.
"""

from __future__ import annotations

from typing import NamedTuple

RECENT_TICKS = 120  #: number of ticks with readable raw and smoothed values


class Span(NamedTuple):
    """Length of a window: ``seconds``, and if ticks are far apart ``least`` samples."""

    seconds: float
    least: int


class Bursts(NamedTuple):
    """Learned bursts of a load: excursions from above its threshold to 0.1 below it that last for 3
    to 15 s. ``open_seconds``: duration of the present excursion, 0 without one; ``held_seconds``: time since
    three quarters of k of n exceeded the threshold, as long as any does. ``total``, ``longest_seconds`` and
    ``height`` cover the last three hours. ``period_seconds`` lies between the last two, and between the ``regular``
    ones before them; the last one began ``since_seconds`` ago and lasted ``last_seconds``.
    """

    open_seconds: float
    held_seconds: float
    total: int
    longest_seconds: float
    height: float
    period_seconds: float
    regular: int
    since_seconds: float
    last_seconds: float


class DecisionInputs(NamedTuple):
    """Figures over the last ``window`` ticks; only valid samples count, and a missing tick is not valid.

    ``above`` is the number of the last ``counted`` ticks (k of n: far fewer than the window) above ``threshold``;
    ``counted_valid`` of those ticks were valid. ``time_above_seconds`` is how long
    valid samples have been above it without exception; unseen time does not count.
    ``cusum`` is d = max(0, d + y - mu - K) with mu the moving average before y and K the configured slack, in
    the metric's unit (Page 1954; on an EMA baseline: Andreolini, Casolari, Colajanni 2008). ``median``,
    ``mad`` (median of the absolute deviations from the median, not scaled), ``q1`` and ``q3`` (linear
    interpolation between order statistics, Hyndman and Fan's type 7) are None when no sample of the window is valid.
    ``since`` is the wall-clock time (seconds since 1970, the probe's clock) of the first sample known to these
    figures; ``warming``: fewer than ``window`` ticks have passed since, so that rules abstain.
    ``lowest`` and ``highest`` are of the last ``plateau`` valid samples: a steady load keeps them
    close together, a spike begins and ends within samples and does not. None while the window holds fewer valid ones,
    and if ``plateau`` is 0: they are then not kept. ``ordered`` is False if ``[filter.inputs] order_statistics``
    does not name the resource set: median, MAD and quartiles are then not kept.
    ``window_seconds``, ``counted_seconds`` and ``plateau_seconds`` are the lengths behind ``window``, ``counted`` and
    ``plateau``, for ticks of this interval. ``bursts`` are kept only for ``cpu_busy_ratio`` of hosts.
    """

    window: int
    valid: int
    above: int
    threshold: float
    time_above_seconds: float
    cusum: float
    median: float | None
    mad: float | None
    q1: float | None
    q3: float | None
    since: float
    warming: bool
    counted: int = 0
    counted_valid: int = 0
    plateau: int = 0
    lowest: float | None = None
    highest: float | None = None
    ordered: bool = True
    window_seconds: float = 0.0
    counted_seconds: float = 0.0
    plateau_seconds: float = 0.0
    bursts: Bursts | None = None


class Recent(NamedTuple):
    """One of the last ticks of one metric of one entity; ``raw`` and ``smoothed`` are None if there is no value.

    ``code``: whether the raw value counted (``acquisition.model.codes``); ``wall``: when sampling ended.
    """

    tick: int
    wall: float
    raw: float | None
    smoothed: float | None
    code: int
