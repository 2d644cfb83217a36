"""Contention of guests on hosts: runnable work against cores, second by second.

Work beyond the cores waits and is carried over to the next second. Guests also wait below that, because work does not
arrive evenly; this follows Sakasegawa's approximation of a queue with c servers (1977), with a variability that makes
guests wait for 11% of the time at 0.81 of 4 cores and for 1 to 2% at 0.92 of 64. So busy and waiting differ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.simulation.arrays import Doubles, Ints

_VARIABILITY = 0.15
_MOST_WAIT = 0.5  #: maximum wait from uneven work, in seconds per second of run time: the formula diverges
_CARRIED_SECONDS = 30.0  #: times a guest's size: work beyond that has timed out and is dropped


class Second(NamedTuple):
    """One second of H hosts and V guests: ``busy``, ``runnable`` and ``pressure`` (H,), ``run`` and ``delay`` (V,) in
    core-seconds, ``carried`` (V,) core-seconds of work left over for the next second."""

    busy: Doubles
    runnable: Doubles
    pressure: Doubles
    run: Doubles
    delay: Doubles
    carried: Doubles


def serve(wanted: Doubles, carried: Doubles, place: Ints, cores: float, sizes: Doubles, overhead: Doubles) -> Second:
    """Run the ``wanted`` (V,) core-seconds of guests at ``place`` for a second.

    ``sizes`` (V,) are vCPUs, which limit what a guest can run at once; ``overhead`` (H,) is the hosts' own work in
    cores, such as migrations.
    """
    hosts = len(overhead)
    whole = wanted + carried
    asked = np.minimum(whole, sizes)
    total = np.bincount(place, asked, hosts) + overhead
    part = np.minimum(1.0, cores / np.maximum(total, 1e-9))
    busy = np.minimum(total / cores, 1.0)
    uneven = uneven_wait(busy, cores)
    run = asked * part[place]
    delay = asked - run + uneven[place] * run
    left = np.minimum(whole - run, _CARRIED_SECONDS * sizes)
    waiting = np.bincount(place, delay, hosts)
    return Second(busy, total + uneven * busy * cores, 1.0 - np.exp(-waiting), run, delay, left)


def uneven_wait(busy: Doubles, cores: float) -> Doubles:
    """Seconds of waiting per second of run time, at a load below all cores."""
    power = np.sqrt(2.0 * (cores + 1.0)) - 1.0
    idle = np.maximum(cores * (1.0 - busy), 1e-9)
    return np.asarray(np.minimum(_VARIABILITY * busy**power / idle, _MOST_WAIT))
