"""How often each client may write: a token bucket for each address."""

from __future__ import annotations

import math

from filters.service.http.problem import Problem

_BURST_SECONDS = 10.0  #: worth of requests that may come at once
_MOST_CALLERS = 10_000  #: that are remembered; the one whose last request is oldest is forgotten first


class Rates:
    """Takes ``per_second`` requests of each caller, and ten seconds' worth, at least one, at once."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._cost = 1.0 / per_second
        self._burst = max(self._cost, _BURST_SECONDS)
        self._full: dict[str, float] = {}  #: when a caller's bucket is full again, the newest caller last

    def take(self, caller: str, now: float) -> None:
        """Take one request at ``now`` (seconds, monotonic). Raises Problem (429) where it is one too many."""
        full = max(self._full.pop(caller, now), now) + self._cost
        wait = full - now - self._burst
        self._full[caller] = full - self._cost if wait > 0.0 else full
        if len(self._full) > _MOST_CALLERS:
            del self._full[next(iter(self._full))]
        if wait > 0.0:
            seconds = math.ceil(wait)
            detail = (
                f"more than [serve.limits] writes_per_second ({self._per_second:g}) came from {caller}: "
                f"send this again in {seconds} s"
            )
            raise Problem(429, "too-many-reports", detail, {b"retry-after": b"%d" % seconds})
