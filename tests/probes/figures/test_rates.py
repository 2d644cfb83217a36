"""Counters to rates: first, jitter, reset."""

from __future__ import annotations

from math import isnan

from hypothesis import given
from hypothesis import strategies as st

from acquisition.model.codes import FIRST, RESET, VALID
from probes.figures.row import difference, differences, rate


def test_growth_is_divided_by_the_measured_seconds() -> None:
    assert rate(150, 100, 2.5) == (20.0, VALID)


def test_without_a_predecessor_there_is_no_rate() -> None:
    value, code = rate(150, None, 1.0)
    assert isnan(value)
    assert code == FIRST


def test_a_small_step_back_is_jitter_and_a_large_one_a_reset() -> None:
    assert rate(98, 100, 1.0, jitter=5) == (0.0, VALID)
    value, code = rate(90, 100, 1.0, jitter=5)
    assert isnan(value)
    assert code == RESET


@given(st.integers(0, 2**64), st.integers(0, 2**64), st.integers(0, 100))
def test_a_rate_is_never_negative(new: int, old: int, jitter: int) -> None:
    grown, code = difference(new, old, jitter)
    assert (code == RESET and isnan(grown)) or grown >= 0


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1))
def test_differences_are_those_of_each_pair(pairs: list[tuple[int, int]]) -> None:
    grown, codes = differences([new for new, _ in pairs], [old for _, old in pairs], 10)
    expected = [difference(new, old, 10) for new, old in pairs]
    assert [VALID] * len(pairs) if codes is None else list(codes) == [code for _, code in expected]
    assert all(a == b or (isnan(a) and isnan(b)) for a, (b, _) in zip(grown, expected, strict=True))
