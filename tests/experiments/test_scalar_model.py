import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.model import codes as validity
from experiments.harness.scalar_model import Observation, State, run, step


def series(*rows):
    return [Observation(*row) for row in rows]


def test_the_first_valid_sample_primes():
    assert run(series((1.0, 4.0, 0)), 5.0) == State(4.0, 0.0, 0.0, 4.0, 0, 1.0)


def test_invalid_sample_keeps_averages_and_shows_value_and_code():
    state = run(series((1.0, 4.0, 0), (2.0, 6.0, 0)), 5.0)
    after = step(state, Observation(3.0, -9.0, validity.RANGE), 5.0)
    assert (after.mean, after.variance, after.trend, after.valid_at) == (*state[:3], 2.0)
    assert (after.last, after.code) == (-9.0, validity.RANGE)


def test_by_hand():
    state = run(series((0.0, 10.0, 0), (5.0, 20.0, 0)), 5.0)
    alpha = 1 - math.exp(-1)
    assert state.mean == pytest.approx(10 + alpha * 10)
    assert state.variance == pytest.approx((1 - alpha) * alpha * 100)
    assert state.trend == pytest.approx(alpha * (alpha * 10 / 5))


def test_a_gap_decays_as_a_gap():
    with_gap = run(series((0.0, 10.0, 0), (1.0, 0.0, validity.TIMEOUT), (2.0, 20.0, 0)), 5.0)
    assert with_gap.mean == pytest.approx(run(series((0.0, 10.0, 0), (2.0, 20.0, 0)), 5.0).mean)


def test_an_outlier_flag_does_not_make_a_sample_invalid():
    assert run(series((0.0, 1.0, validity.OUTLIER_FLAG)), 5.0).mean == 1.0


def test_invalid_samples_alone_prime_nothing():
    state = run(series((0.0, 1.0, validity.RANGE), (1.0, 2.0, validity.RESET)), 5.0)
    assert math.isnan(state.mean)
    assert math.isnan(state.valid_at)


def test_time_that_stands_still_is_an_error():
    with pytest.raises(ValueError, match="stood still"):
        run(series((1.0, 4.0, 0), (1.0, 6.0, 0)), 5.0)


@given(
    st.floats(-1e6, 1e6),
    st.lists(st.floats(0.01, 100.0), min_size=1, max_size=20),
    st.floats(0.1, 100.0),
)
def test_a_constant_has_itself_as_mean_and_neither_variance_nor_trend(value, gaps, tau):
    at = 0.0
    rows = [(0.0, value, 0)]
    for gap in gaps:
        at += gap
        rows.append((at, value, 0))
    state = run(series(*rows), tau)
    assert state.mean == pytest.approx(value)
    assert state.variance == pytest.approx(0.0, abs=1e-6)
    assert state.trend == pytest.approx(0.0, abs=1e-6)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_how_a_gap_is_divided_does_not_matter_to_a_step(values):
    """Holding a value over two half intervals moves the mean as one whole interval does."""
    whole = [Observation(float(i), v, 0) for i, v in enumerate(values)]
    halves = [
        o
        for i, v in enumerate(values)
        for o in ([Observation(i - 0.5, v, 0)] if i else []) + [Observation(float(i), v, 0)]
    ]
    assert run(halves, 5.0).mean == pytest.approx(run(whole, 5.0).mean, abs=1e-6)
