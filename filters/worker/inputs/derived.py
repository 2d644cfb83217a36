"""Metrics that no probe sends because others say them: computed from columns of the same frame, then smoothed.

Decision rules compare hosts of any size, so they want parts of a capacity. A derived sample is valid when all
of its parts are; its code is that of the first part that is not. It is smoothed as any other sample is, not put
together from averages: the busier of two directions, averaged, is not the busier average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes as validity
from acquisition.wire.inputs import Floats
from filters.kernels.numpy_step import LARGEST

Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Derived:
    """``formula`` takes one float32 array per part and answers another; ``help`` says what it is, in a line."""

    help: str
    parts: tuple[str, ...]
    formula: Callable[..., Floats]


def _cpu_busy(idle: Floats, iowait: Floats) -> Floats:
    busy: Floats = np.subtract(np.float32(1.0) - idle, iowait, dtype=np.float32)
    return busy


def _memory_used(available: Floats, total: Floats) -> Floats:
    used: Floats = np.subtract(np.float32(1.0), available / total, dtype=np.float32)
    return used


def _network_used(receive: Floats, transmit: Floats, speed: Floats) -> Floats:
    used: Floats = np.divide(np.maximum(receive, transmit), speed, dtype=np.float32)
    return used


DERIVED: dict[str, Derived] = {
    "cpu_busy_ratio": Derived(
        "CPU time of all cores that was neither idle nor waiting for input or output",
        ("cpu_idle_ratio", "cpu_iowait_ratio"),
        _cpu_busy,
    ),
    "memory_used_ratio": Derived(
        "memory that is not available for new programs", ("memory_available_bytes", "memory_total_bytes"), _memory_used
    ),
    "network_used_ratio": Derived(
        "the busier direction of the network, of the speed of the links",
        (
            "network_receive_bytes_per_second",
            "network_transmit_bytes_per_second",
            "link_speed_bytes_per_second",
        ),
        _network_used,
    ),
}


class Averages(NamedTuple):
    """Smoothed state of derived columns, float32 (D, R) each; NaN before the first valid sample.

    ``age`` seconds from the last valid sample to this tick.
    """

    mean: Floats
    variance: Floats
    trend: Floats
    age: Floats


def derive(how: Derived, values: Sequence[Floats], codes: Sequence[Codes] | None) -> tuple[Floats, Codes]:
    """Derived samples and their codes, (R,) each, from those of the parts; RANGE where the result is no number that
    can be smoothed."""
    with np.errstate(all="ignore"):
        result = np.asarray(how.formula(*values), np.float32)
    marks = np.zeros(result.shape, np.uint8)
    for code in codes or ():
        marks = np.where((marks & validity.CODE_MASK) == validity.VALID, marks & validity.OUTLIER_FLAG | code, marks)
    unusable = (marks & validity.CODE_MASK) != validity.VALID
    marks[unusable] &= validity.CODE_MASK
    marks[~unusable & ~(np.abs(result) <= LARGEST)] = validity.RANGE
    return result, marks


def smooth(old: Averages, x: Floats, dt: npt.NDArray[np.float64], tau: npt.NDArray[np.float64]) -> Averages:
    """One step of what ``filters.kernels`` compute: mean, variance and trend that know time.

    ``x`` (D, R), NaN where not valid; ``dt`` (R,) seconds since the tick before; ``tau`` (D, 1).
    """
    with np.errstate(all="ignore"):
        elapsed = old.age + dt
        alpha = -np.expm1(-elapsed / tau)
        deviation = x - old.mean
        mean = old.mean + alpha * deviation
        variance = (1.0 - alpha) * (old.variance + alpha * deviation * deviation)
        trend = old.trend + alpha * ((mean - old.mean) / elapsed - old.trend)
        used = ~np.isnan(x)
        first = used & np.isnan(old.mean)
        new = (
            np.where(first, x, np.where(used, mean, old.mean)),
            np.where(first, 0.0, np.where(used, variance, old.variance)),
            np.where(first, 0.0, np.where(used, trend, old.trend)),
            np.where(used, 0.0, elapsed),
        )
        return Averages(*(part.astype(np.float32) for part in new))
