"""How often a client may write."""

from __future__ import annotations

import contextlib

import pytest

from filters.service.http.access import Rates
from filters.service.http.problem import Problem


def taken(rates: Rates, caller: str, now: float, times: int) -> int:
    found = 0
    for _ in range(times):
        with contextlib.suppress(Problem):
            rates.take(caller, now)
            found += 1
    return found


@pytest.mark.parametrize(("per_second", "burst"), [(8.0, 80), (0.5, 5), (0.01, 1)])
def test_a_burst_then_the_rate_for_each_caller(per_second: float, burst: int) -> None:
    rates = Rates(per_second)
    assert taken(rates, "a", 1000.0, burst + 50) == burst
    assert taken(rates, "b", 1000.0, burst + 50) == burst  # others are not affected
    assert taken(rates, "a", 1000.0 + 4 / per_second, 50) == min(4, burst)
    assert taken(rates, "a", 1e9, burst + 50) == burst


def test_callers_are_forgotten_in_turn_and_memory_is_bounded() -> None:
    rates = Rates(0.01)
    for number in range(20_000):
        rates.take(str(number), 1000.0)
    assert taken(rates, "19999", 1000.0, 1) == 0
    assert taken(rates, "0", 1000.0, 1) == 1
