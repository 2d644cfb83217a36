"""Tick arithmetic: the interval that a sample belongs to, and complete ticks.

Tick t of an interval of i seconds covers the wall-clock time [t i, (t + 1) i). Hosts sample at
different phases of it, so tick t is complete at (t + 1) i; a grace time later everything
that was on its way has arrived, or is late.

This module is light enough for the probe: writers and readers must number ticks alike.
"""

from __future__ import annotations

import math
from functools import lru_cache

_STALE_TICKS, _STALE_SECONDS = 3.0, 3.0


@lru_cache(256)
def exact_interval(interval: float) -> float:
    """The decimal number of seconds that was rounded to a float32 on the wire.

    0.1 comes back as 0.10000000149; the time since 1970 divided by that would be another tick.
    Decimals of up to six digits survive float32, so an interval has at most six.
    """
    return float(f"{interval:.6g}")


def tick_of(wall: float, interval: float) -> int:
    """The tick that a sample taken at ``wall`` (seconds since 1970) belongs to."""
    return math.floor(wall / exact_interval(interval))


def stale_after(interval: float) -> float:
    """Seconds without a valid value after which a moving average is stale and no longer shown: three ticks, or for
    short ones as many as fit into three seconds."""
    return max(_STALE_SECONDS, _STALE_TICKS * interval)


def usable_grace(grace: float, interval: float, keep_ticks: int) -> float:
    """``grace``, limited so that the tick it waits for is still kept.

    The tick that is being filled and the one before it take two of the kept ticks.
    """
    return min(grace, max(0, keep_ticks - 2) * exact_interval(interval))


def coherent_tick(now: float, interval: float, grace: float) -> int:
    """The newest tick whose interval plus ``grace`` is over at ``now``."""
    return math.floor((now - grace) / exact_interval(interval)) - 1


def slot_of(tick: int, keep_ticks: int) -> int:
    """Place of a tick among the kept ticks."""
    return tick % keep_ticks
