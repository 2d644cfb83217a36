"""Decision inputs of one metric of one entity at one tick.

A light module of plain values: ``filters.worker.inputs`` computes them, and
``acquisition.wire.records.inputs`` carries them.
"""

from __future__ import annotations

from typing import NamedTuple

RECENT_TICKS = 120  #: whose raw and smoothed values stay readable


class Span(NamedTuple):
    """How long a window is: ``seconds``, and where ticks are far apart ``least`` samples."""

    seconds: float
    least: int


class Bursts(NamedTuple):
    """Learned bursts of a load: excursions from above its threshold until 0.1 below it that last for 3
    to 15 s. ``open_seconds`` is how long the present excursion lasts, 0 without one; ``held_seconds`` is the time since
    three quarters of k of n exceeded the threshold, as long as any has done so. ``total``, ``longest_seconds`` and
    ``height`` are of the last three hours. ``period_seconds`` lies between the last two, and between the ``regular``
    ones before them; ``since_seconds`` ago the last one began, and ``last_seconds`` long it was.
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
    """Figures over the last ``window`` ticks; only valid samples count, a tick that never came is not valid.

    ``above`` is how many of the last ``counted`` ticks (k of n: far fewer than the window) exceed ``threshold``, of
    which ``counted_valid`` were valid. ``time_above_seconds`` is how long
    valid samples have been above it without one that was not: what was not seen is not counted.
    ``cusum`` is d = max(0, d + y - mu - K) with mu the moving average before y and K the configured slack, in
    the metric's unit (Page 1954; on an EMA baseline: Andreolini, Casolari, Colajanni 2008). ``median``,
    ``mad`` (median of the absolute deviations from the median, not scaled), ``q1`` and ``q3`` (linear
    interpolation between order statistics, Hyndman and Fan's type 7) are None when no sample of the window is valid.
    ``since`` is the wall-clock time (seconds since 1970, the probe's clock) of the first sample that these
    figures know of; ``warming``: fewer than ``window`` ticks have passed since, so that rules abstain.
    ``lowest`` and ``highest`` are of the last ``plateau`` valid samples: a load that stays where it is keeps them
    close together, a spike begins and ends within samples and does not. None while the window holds fewer valid ones,
    and where ``plateau`` is 0: they are then not kept. ``ordered`` is False where ``[filter.inputs] order_statistics``
    does not name the resource set: median, MAD and quartiles are then not kept.
    ``window_seconds``, ``counted_seconds`` and ``plateau_seconds`` are the lengths that ``window``, ``counted`` and
    ``plateau`` were made of, for ticks of this interval. ``bursts`` are kept of ``cpu_busy_ratio`` of hosts alone.
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
    """One of the last ticks of one metric of one entity; ``raw`` and ``smoothed`` are None where there is no value.

    ``code`` says whether the raw value counted (``acquisition.model.codes``); ``wall`` is when sampling ended.
    """

    tick: int
    wall: float
    raw: float | None
    smoothed: float | None
    code: int
