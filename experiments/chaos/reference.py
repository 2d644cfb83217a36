"""Reference state of a host, computed from its log in float64.

One frame follows the other.

The same definitions as ``experiments.harness.scalar_model``, which steps one sample in plain Python; here
numpy steps all samples of a frame at once, because five minutes of 100 hosts are 15 million
samples. A test checks that both are equal, bit by bit up to the last place of ``exp``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes as validity
from experiments.chaos.host_log import Note
from experiments.chaos.load import Load, Row

Doubles = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]


class Reference(NamedTuple):
    """State after the newest frame; arrays (rows, metrics). ``age`` is the seconds from the last valid sample
    to the newest frame: 0 if that is valid, infinite without a valid sample."""

    rows: tuple[Row, ...]
    mean: Doubles
    variance: Doubles
    trend: Doubles
    last: Doubles
    code: Codes
    age: Doubles


def empty(metrics: int) -> Reference:
    """A state without rows."""
    none = np.empty((0, metrics))
    return Reference((), none, none, none, none, np.empty((0, metrics), np.uint8), none)


def step(state: Reference, rows: tuple[Row, ...], x: Doubles, code: Codes, dt: float, tau: float) -> Reference:
    """The state after one more frame, ``dt`` seconds after the one before."""
    if rows != state.rows:
        state = _align(state, rows, x.shape[1])
    valid = (code & validity.CODE_MASK) == validity.VALID
    age = state.age + dt
    with np.errstate(all="ignore"):
        alpha = 1.0 - np.exp(-age / tau)
        deviation = x - state.mean
        mean = state.mean + alpha * deviation
        variance = (1.0 - alpha) * (state.variance + alpha * deviation * deviation)
        trend = state.trend + alpha * ((mean - state.mean) / age - state.trend)
    primed = np.isinf(age)
    mean, variance, trend = np.where(primed, x, mean), np.where(primed, 0.0, variance), np.where(primed, 0.0, trend)
    return Reference(
        rows,
        np.where(valid, mean, state.mean),
        np.where(valid, variance, state.variance),
        np.where(valid, trend, state.trend),
        x,
        code,
        np.where(valid, 0.0, age),
    )


def run(load: Load, host: int, notes: Sequence[Note], tau: float) -> Reference:
    """The state after all frames of a log."""
    state = empty(load.metrics)
    before = notes[0].monotonic if notes else 0.0
    for note in notes:
        rows = load.rows(host, note.number)
        values, code = load.arrays_of(host, note.number, len(rows))
        state = step(state, rows, values.astype(np.float64), code, note.monotonic - before, tau)
        before = note.monotonic
    return state


def _align(state: Reference, rows: tuple[Row, ...], metrics: int) -> Reference:
    """Staying rows keep their values; new and returning ones have none."""
    places = {row: place for place, row in enumerate(state.rows)}
    pairs = [(new, places[row]) for new, row in enumerate(rows) if row in places]
    here, there = [new for new, _ in pairs], [old for _, old in pairs]

    def moved(plane: Doubles, absent: float) -> Doubles:
        out = np.full((len(rows), metrics), absent)
        out[here] = plane[there]
        return out

    nan = float("nan")
    return Reference(
        rows,
        moved(state.mean, nan),
        moved(state.variance, nan),
        moved(state.trend, nan),
        moved(state.last, nan),
        np.zeros((len(rows), metrics), np.uint8),
        moved(state.age, float("inf")),
    )
