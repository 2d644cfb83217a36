"""The detector of levels that got worse, in simulated time: what it must report, and what it must not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from filters.archive.database.shift import LEAST, LENGTHS, LONGEST, Shift, Values, shifts

JITTER, WORSE = 0.03, -0.05
LEARNED = 100  #: runs


def level(runs: int, series: int = 1, seed: int = 1) -> Values:
    """Series of 100 MB/s with their jitter."""
    noise: Values = np.random.default_rng(seed).standard_normal((series, runs))
    return 100e6 * (1.0 + JITTER * noise)


def newest(values: Values, change: float = WORSE) -> Shift | None:
    """What is found of one series."""
    (found,) = shifts(values[None, -LONGEST:], change)
    return found


def reported(series: Values, runs: int) -> float:
    """The share of series in which it is found within so many runs after LEARNED."""
    seen = np.zeros(len(series), np.bool_)
    for more in range(1, runs + 1):
        seen |= [found is not None for found in shifts(series[:, : LEARNED + more], WORSE)]
    return float(seen.mean())


def test_jitter_alone_is_no_alarm_in_a_thousand_runs_of_18_series() -> None:
    windows = sliding_window_view(level(LONGEST + 999, 18), LONGEST, 1)
    assert windows.shape[:2] == (18, 1000)
    found = shifts(windows.reshape(-1, LONGEST), WORSE)
    assert [one for one in found if one is not None] == []


def test_drop_of_ten_percent_is_found_within_five_runs() -> None:
    series = level(LEARNED + 5, 1000, seed=2)
    series[:, LEARNED:] *= 0.9
    assert reported(series, 5) > 0.98
    assert reported(series, 2) < 0.05, "two bad runs are hardly ever a change yet"


def test_report_says_since_when_by_how_much_and_with_what_chance() -> None:
    values = level(LEARNED + 7)[0]
    values[LEARNED:] *= 0.9
    found = newest(values)
    assert found is not None
    assert (found.runs, found.learned) == (7, LEARNED)
    assert found.baseline == pytest.approx(100e6, rel=0.01)
    assert found.deviation == pytest.approx(3e6, rel=0.2)
    assert found.change == pytest.approx(-0.1, abs=0.02)
    assert found.chance < 1e-5


def test_direction_is_that_of_the_configuration() -> None:
    values = level(LEARNED + 5)[0]
    values[LEARNED:] *= 1.1
    assert newest(values) is None
    assert newest(values, 0.05) is not None


@pytest.mark.parametrize("outliers", [1, 2])
@pytest.mark.parametrize("after", [0, 1, 2, 5])
def test_outlier_is_no_change(outliers: int, after: int) -> None:
    values = level(LEARNED)[0]
    values[LEARNED - outliers - after : LEARNED - after] = 1e6
    assert newest(values) is None


def test_outlier_in_the_past_hides_no_change() -> None:
    values = level(LEARNED + 5)[0]
    values[20], values[60] = 1e6, 900e6
    values[LEARNED:] *= 0.9
    assert newest(values) is not None


def test_halved_level_is_found_in_jitter_of_half_of_it() -> None:
    values = 100e6 * np.exp(0.5 * np.random.default_rng(4).standard_normal(LEARNED + 7))
    assert newest(values[:LEARNED]) is None
    values[LEARNED:] *= 0.2
    assert newest(values) is not None


def test_slow_drift_is_found_when_it_amounts_to_the_change() -> None:
    values = level(300)[0]
    values[150:] *= np.linspace(1.0, 0.85, 150)
    first = next(n for n in range(150, 300) if newest(values[:n]))
    assert 0.9 < values[:first][-10:].mean() / 100e6 < 0.96


def test_step_back_ends_it() -> None:
    values = level(LEARNED + 16)[0]
    values[LEARNED : LEARNED + 10] *= 0.9
    assert newest(values[: LEARNED + 10]) is not None
    assert newest(values[: LEARNED + 13]) is None


def test_new_level_becomes_the_usual_one_in_the_end() -> None:
    values = level(LEARNED + 200)[0]
    values[LEARNED:] *= 0.9
    assert all(newest(values[: LEARNED + n]) for n in (5, 6, 8, 12, 18, 25, 40, 50))
    assert newest(values) is None


def test_smaller_change_than_asked_for_is_none() -> None:
    values = level(LEARNED + 50)[0]
    values[LEARNED:] *= 0.96
    assert newest(values) is None
    assert newest(values, -0.02) is not None


def test_short_past_reports_nothing_and_longer_one_by_and_by() -> None:
    short = level(LEAST + LENGTHS[0] - 1)[0]
    short[-3:] *= 0.1
    assert newest(short) is None
    longer = level(25)[0]
    longer[-5:] *= 0.8
    assert newest(longer) is not None


def test_figures_that_never_varied_are_a_baseline_too() -> None:
    constant = np.full(60, 8.0)
    assert newest(constant) is None
    constant[-4:] = 7.0
    found = newest(constant)
    assert found is not None
    assert found.change == pytest.approx(-0.125)
    errors = np.zeros(60)
    assert newest(errors, 0.05) is None
    errors[-4:] = 2.0
    found = newest(errors, 0.05)
    assert found is not None
    assert found.change == 1000.0
