"""Fits of the paper's series against curves that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.errors import DataError
from experiments.paper import fits
from experiments.paper.fits import LINE, MODELS, PARABOLA, POWER

_HOSTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_SIZES = np.asarray(_HOSTS)
_coefficient = st.floats(0.001, 10.0)


@given(_coefficient, _coefficient, _coefficient)
@settings(max_examples=25, deadline=None)
def test_line_and_parabola_are_recovered(a: float, b: float, c: float) -> None:
    """At measured sizes and far beyond them."""
    for model, bend in ((LINE, 0.0), (PARABOLA, c)):
        found = fits.fit(model, _SIZES, a + b * _SIZES + bend * _SIZES**2)
        assert found.at(640.0) == pytest.approx(a + b * 640.0 + bend * 640.0**2, rel=1e-6)
        assert np.abs(found.residuals).max() < 1e-6 * (a + b * 64.0 + bend * 64.0**2)


@given(_coefficient, _coefficient, st.floats(0.3, 3.0))
@settings(max_examples=25, deadline=None)
def test_power_law_is_recovered(a: float, b: float, c: float) -> None:
    """Its exponent too."""
    found = fits.fit(POWER, _SIZES, a + b * _SIZES**c)
    assert found.exponents[1] == pytest.approx(c, abs=1e-3)
    assert found.at(640.0) == pytest.approx(a + b * 640.0**c, rel=1e-2)


@given(st.sampled_from([(LINE, 1.0), (PARABOLA, 2.0), (POWER, 0.5)]), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_cross_validation_finds_the_family(kind: tuple[fits.Model, float], seed: int) -> None:
    """With noise of a thousandth the true family predicts as well as the best, but for a factor that chance explains,
    and a family that bends differently far worse."""
    model, power = kind
    chance = np.random.default_rng(seed)
    measured = 0.01 + (_SIZES / 64.0) ** power * (1.0 + chance.normal(0.0, 0.001, len(_SIZES)))
    errors = {each.fit.model: each.error for each in fits.compare(_HOSTS, list(measured))}
    assert errors[model] <= 30.0 * min(errors.values())
    if model is not LINE:
        assert errors[LINE] > 3.0 * errors[model]


def test_bands_hold_the_truth_as_often_as_they_say() -> None:
    """At a size ten times the largest measured one, in 95% of the runs, give or take what 400 runs can show."""
    chance = np.random.default_rng(1)
    inside = dict.fromkeys(MODELS, 0)
    for _ in range(400):
        noise = chance.normal(0.0, 0.002, len(_SIZES))
        for model, power in ((LINE, 1.0), (PARABOLA, 2.0), (POWER, 1.5)):
            low, high = fits.fit(model, _SIZES, 0.01 + (_SIZES / 64.0) ** power + noise).band(640.0)
            inside[model] += bool(low <= 0.01 + 10.0**power <= high)
    assert all(0.91 <= count / 400 <= 0.98 for count in inside.values()), inside


@given(st.floats(50.0, 5000.0), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_exhaustion_is_found_with_its_interval(truth: float, seed: int) -> None:
    """The size lies between the ends of its interval; without noise it is the true one."""
    clean = _SIZES / truth
    exact = fits.crossing(fits.fit(LINE, _SIZES, clean), 1.0)
    assert exact.size == pytest.approx(truth, rel=1e-3)
    noise = np.random.default_rng(seed).normal(0.0, clean.max() / 50.0, len(clean))
    found = fits.crossing(fits.fit(LINE, _SIZES, clean + noise), 1.0)
    assert found.size is not None
    assert found.least is not None
    assert found.least <= found.size
    assert found.most is None or found.size <= found.most


def test_limit_that_is_never_reached_has_no_size() -> None:
    """A resource whose use does not grow."""
    assert fits.crossing(fits.fit(LINE, _HOSTS, [0.1] * 7), 1.0) == (None, None, None)


def test_too_few_sizes_are_refused() -> None:
    """A parabola through two points."""
    with pytest.raises(DataError, match="needs 3 different sizes, there are 2"):
        fits.fit(PARABOLA, [1.0, 2.0, 2.0], [1.0, 2.0, 2.1])


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (30, 2.042)])
def test_quantiles_of_students_t(freedom: int, quantile: float) -> None:
    """Those of the tables."""
    assert fits.student(freedom, 0.975) == pytest.approx(quantile, rel=2e-3)
    assert math.isclose(fits.student(freedom, 0.5), 0.0, abs_tol=1e-9)
