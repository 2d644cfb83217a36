"""The fair share: fair, exact, and only there while a worker is saturated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters.worker.loop.fair_share import FairShare, solve
from filters.worker.loop.pace import Pace
from filters.worker.states.state import State

RATES = st.lists(st.floats(0.0, 1e7), min_size=1, max_size=50)


@given(RATES, st.floats(0.0, 1.0))
def test_what_the_level_lets_through_is_the_capacity(rates, part):
    capacity = part * sum(rates)
    level = solve(rates, capacity)
    if level:
        assert np.minimum(rates, level).sum() == pytest.approx(capacity, rel=1e-6)
        assert level <= max(rates)


def test_quiet_hosts_keep_everything_and_the_talkative_share_the_rest():
    assert solve([1.0, 1.0, 10.0, 10.0], 8.0) == 3.0
    assert solve([1.0, 1.0, 10.0, 10.0], 22.0) == 0.0  # all fit
    assert solve([1.0, 1.0], 1.0) == 0.5


def feed(states: list[State], seconds: float, rates: list[int]) -> None:
    """Frames of ``seconds`` later, ``rates`` samples made per second."""
    for state, rate in zip(states, rates, strict=True):
        state.track.made += round(rate * seconds)
        state.monotonic += seconds


def test_fair_share_is_measured_from_made_and_applied_samples():
    states = [State("0.0", host, 1, 3) for host in range(4)]
    share = FairShare()
    feed(states, 1.0, [100, 100, 1000, 1000])
    share.measure(10.0, 0.5, 0, states)
    assert share.rate == 0.0
    share.measure(20.0, 1.0, 5000, states)
    feed(states, 0.4, [100, 100, 1000, 1000])  # the frames are those of 0.4 s, applied in one second
    share.measure(20.5, 1.0, 5500, states)
    assert share.rate == 0.0  # not yet
    share.measure(21.0, 1.0, 6000, states)
    assert share.rate == pytest.approx(300.0)  # 0.8 x 1000 = 100 + 100 + 2 x 300
    share.measure(22.5, 1.0, 6000 + 15_000, states)
    assert share.rate == 0.0  # it catches up: everything fits
    share.measure(23.0, 0.1, 22_000, states)
    assert share.rate == 0.0


def test_a_turn_is_bounded_in_time_on_a_slow_machine():
    pace = Pace(0.1)
    assert pace.turn_samples == 200_000
    for _ in range(50):
        pace.note_work(1000, 0.1)
    assert pace.turn_samples == pytest.approx(2000, rel=0.1)
    assert pace.read_bytes == pytest.approx(2000, rel=0.1)
    pace.note_work(0, 10.0)
    assert pace.speed == pytest.approx(10_000, rel=0.1)
