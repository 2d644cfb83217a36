"""Sensor faults, caught or missed by the probe's checks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.decisions.load import Bools, Floats

_STUCK_NOTICED = 9  #: the tenth equal reading in a row is the first that is called STUCK ([checks.stuck])


class Faults(NamedTuple):
    """``valid`` (T, H): False where the sample has an invalid code. ``wrong`` (T, H): the value that was
    sampled in place of the true one, NaN where it was the true one."""

    valid: Bools
    wrong: Floats


def without_faults(ticks: int, hosts: int) -> Faults:
    """Sensors that are always right."""
    return Faults(np.ones((ticks, hosts), np.bool_), np.full((ticks, hosts), np.nan, np.float32))


def sensor_faults(generator: np.random.Generator, ticks: int, hosts: int) -> Faults:
    """Per host and hour four gaps of 1 to 30 s, six impossible values (both flagged), six plausible but wrong
    values of one tick, and a source that repeats 0.97 for a minute and is called STUCK from the tenth on."""
    found = without_faults(ticks, hosts)
    for host in range(hosts):
        for _ in range(_times(generator, 4, ticks)):
            start, length = int(generator.integers(ticks)), int(generator.integers(1, 31))
            found.valid[start : start + length, host] = False
        found.valid[generator.integers(ticks, size=_times(generator, 6, ticks)), host] = False
        wrong = generator.integers(ticks, size=_times(generator, 6, ticks))
        found.wrong[wrong, host] = generator.uniform(0.0, 1.0, len(wrong))
        for _ in range(_times(generator, 1, ticks)):
            start = int(generator.integers(ticks))
            found.wrong[start : start + 60, host] = 0.97
            found.valid[start + _STUCK_NOTICED : start + 60, host] = False
    return found


def _times(generator: np.random.Generator, per_hour: float, ticks: int) -> int:
    return int(generator.poisson(per_hour * ticks / 3600.0))
