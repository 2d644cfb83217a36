"""Scalar model: smoothing of one series in plain floats, as the reference.

Slow and obvious on purpose. The filter's vectorised float32 arithmetic is compared with it.
Definitions: docs of ``filters.kernels``; Eckner, "Algorithms for Unevenly Spaced Time Series"
(2012) for the mean, Finch, "Incremental Calculation of Weighted Mean and Variance" (2009) for
the variance, Holt (1957) for the trend.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from acquisition.model import codes as validity
from acquisition.model.codes import NAN


class Observation(NamedTuple):
    """One sample as in a frame; ``monotonic`` in seconds."""

    monotonic: float
    value: float
    code: int


class State(NamedTuple):
    """``valid_at`` is the monotonic time of the last valid sample, NaN before the first."""

    mean: float = NAN
    variance: float = NAN
    trend: float = NAN
    last: float = NAN
    code: int = validity.MISSING
    valid_at: float = NAN


def step(state: State, seen: Observation, tau: float) -> State:
    """The state after one observation. ``tau`` is the time constant in seconds.

    Raises ValueError if a valid observation is not later than the last valid one.
    """
    if seen.code & validity.CODE_MASK:
        return state._replace(last=seen.value, code=seen.code)
    if math.isnan(state.valid_at):
        return State(seen.value, 0.0, 0.0, seen.value, seen.code, seen.monotonic)
    elapsed = seen.monotonic - state.valid_at
    if elapsed <= 0:
        raise ValueError(f"time stood still: {state.valid_at} s, then {seen.monotonic} s")
    alpha = 1.0 - math.exp(-elapsed / tau)
    deviation = seen.value - state.mean
    mean = state.mean + alpha * deviation
    variance = (1.0 - alpha) * (state.variance + alpha * deviation * deviation)
    slope = (mean - state.mean) / elapsed
    trend = state.trend + alpha * (slope - state.trend)
    return State(mean, variance, trend, seen.value, seen.code, seen.monotonic)


def run(observations: Iterable[Observation], tau: float) -> State:
    """The state after a whole series."""
    state = State()
    for seen in observations:
        state = step(state, seen, tau)
    return state
