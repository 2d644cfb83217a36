"""Fits of curves: least squares, confidence bands, cross-validation, limits.

A limit is expressed as the size at which it is reached.

Three families, all with a constant, since an idle server uses something too: a line ``a + b x``, the paper's parabola
``a + b x + c x²``, and a power law ``a + b x^c``. Only the exponent of a power law is searched for, everything else is
linear, so no fit can diverge. Bands are those of the mean response by Student's t, for the power law from the Jacobian
at the solution (Seber, Wild: Nonlinear Regression, 5.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import DataError

Values = npt.NDArray[np.float64]

_EXPONENTS = (0.05, 5.0)  #: of power laws
_GRID, _ZOOMS = 41, 7
_SEARCHED_TO = 1e7  #: sizes above which a limit counts as never reached
_STEPS = 2000


class Model(NamedTuple):
    """A family of curves: its name, the exponents of its terms, and whether one more term has a free exponent."""

    name: str
    exponents: tuple[float, ...]
    free: bool = False

    @property
    def parameters(self) -> int:
        """Number of fitted parameters."""
        return len(self.exponents) + 2 * self.free


LINE = Model("line", (0.0, 1.0))
PARABOLA = Model("parabola", (0.0, 1.0, 2.0))
POWER = Model("power law", (0.0,), free=True)
MODELS = (LINE, PARABOLA, POWER)


class Fit(NamedTuple):
    """A fitted curve. ``exponents`` and ``coefficients`` are those of its terms, of ``x / scale``; ``covariance`` is
    that of the parameters, shape (p, p); ``residuals`` are measured less fitted, in the unit of y."""

    model: Model
    exponents: tuple[float, ...]
    coefficients: Values
    scale: float
    covariance: Values
    residuals: Values

    @property
    def freedom(self) -> int:
        """Degrees of freedom."""
        return len(self.residuals) - self.model.parameters

    def at(self, sizes: npt.ArrayLike) -> Values:
        """The curve at sizes of any shape."""
        return _design(_scaled(sizes, self.scale), self.exponents) @ self.coefficients

    def band(self, sizes: npt.ArrayLike, confidence: float = 0.95) -> tuple[Values, Values]:
        """The lower and the upper end of the confidence band of the mean; infinitely wide without freedom."""
        middle = self.at(sizes)
        if self.freedom < 1:
            return np.full_like(middle, -np.inf), np.full_like(middle, np.inf)
        slopes = _jacobian(self.model, _scaled(sizes, self.scale), self.exponents, self.coefficients)
        spread = np.sqrt(np.maximum(0.0, np.einsum("...i,ij,...j->...", slopes, self.covariance, slopes)))
        half = student(self.freedom, (1.0 + confidence) / 2.0) * spread
        return middle - half, middle + half

    def formula(self) -> str:
        """The curve as text, such as ``0.0102 + 0.000734 x^1``."""
        terms = zip(self.coefficients / self.scale ** np.asarray(self.exponents), self.exponents, strict=True)
        return " + ".join(f"{factor:.3g}" + (f" x^{power:.3g}" if power else "") for factor, power in terms)


class Crossing(NamedTuple):
    """The size where a curve reaches a limit, and the ends of its confidence interval; None: not reached up to 10^7."""

    size: float | None
    least: float | None
    most: float | None


class Comparison(NamedTuple):
    """A fit, and the root of the mean squared error of predicting each point from the others."""

    fit: Fit
    error: float


def fit(model: Model, sizes: Sequence[float] | Values, measured: Sequence[float] | Values) -> Fit:
    """Least squares of ``measured`` over ``sizes``, both of shape (n,), sizes not negative. Raises DataError for fewer
    different sizes than the model has parameters."""
    x, y = np.asarray(sizes, dtype=float), np.asarray(measured, dtype=float)
    if len(np.unique(x)) < model.parameters:
        raise DataError(f"a {model.name} needs {model.parameters} different sizes, there are {len(np.unique(x))}")
    if x.min() < 0.0 or not np.isfinite(y).all():
        raise DataError("sizes must not be negative, and measured values must be finite")
    scale = float(x.max())
    scaled = x / scale
    exponents = (*model.exponents, _exponent(scaled, y)) if model.free else model.exponents
    coefficients = _solve(_design(scaled, exponents), y)
    residuals = y - _design(scaled, exponents) @ coefficients
    slopes = _jacobian(model, scaled, exponents, coefficients)
    variance = float(residuals @ residuals) / max(1, len(x) - model.parameters)
    return Fit(model, exponents, coefficients, scale, _covariance(slopes, variance), residuals)


def compare(sizes: Sequence[float], measured: Sequence[float], models: Sequence[Model] = MODELS) -> list[Comparison]:
    """All models with enough sizes, the best predicting one first. Of models with equal errors the one with fewer
    parameters comes first."""
    count = len(set(sizes))
    fitting = [model for model in models if model.parameters < count]
    found = [Comparison(fit(model, sizes, measured), left_out(model, sizes, measured)) for model in fitting]
    return sorted(found, key=lambda each: (each.error, each.fit.model.parameters))


def left_out(model: Model, sizes: Sequence[float], measured: Sequence[float]) -> float:
    """Leave-one-out cross-validation: every size is predicted from all others. Raises DataError as ``fit``."""
    x, y = np.asarray(sizes, dtype=float), np.asarray(measured, dtype=float)
    errors = []
    for size in np.unique(x):
        kept = x != size
        errors.append(y[~kept] - fit(model, x[kept], y[kept]).at(x[~kept]))
    return float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))


def crossing(found: Fit, limit: float, confidence: float = 0.95) -> Crossing:
    """The smallest size where a curve reaches ``limit``, with the sizes at which its confidence band does: the upper
    end of the band first."""
    sizes = np.geomspace(1.0, _SEARCHED_TO, _STEPS)
    low, high = found.band(sizes, confidence)
    middle, least, most = (_first(sizes, curve - limit) for curve in (found.at(sizes), high, low))
    return Crossing(middle, least, most)


def student(freedom: int, probability: float) -> float:
    """A quantile of Student's t, within 0.2% for probabilities of 0.9 to 0.995 (Abramowitz, Stegun 26.7.5; exact for
    one and two degrees of freedom)."""
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        return (2.0 * probability - 1.0) * math.sqrt(2.0 / (4.0 * probability * (1.0 - probability)))
    z = NormalDist().inv_cdf(probability)
    terms = (
        z,
        (z**3 + z) / 4.0,
        (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0,
        (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0,
        (79.0 * z**9 + 776.0 * z**7 + 1482.0 * z**5 - 1920.0 * z**3 - 945.0 * z) / 92160.0,
    )
    return float(sum(term / freedom**power for power, term in enumerate(terms)))


def _scaled(sizes: npt.ArrayLike, scale: float) -> Values:
    return np.asarray(sizes, dtype=float) / scale


def _design(x: Values, exponents: Sequence[float]) -> Values:
    return np.asarray(np.power.outer(x, np.asarray(exponents)), dtype=np.float64)


def _solve(design: Values, y: Values) -> Values:
    return np.asarray(np.linalg.lstsq(design, y, rcond=None)[0], dtype=np.float64)


def _covariance(slopes: Values, variance: float) -> Values:
    return np.asarray(variance * np.linalg.pinv(slopes.T @ slopes), dtype=np.float64)


def _jacobian(model: Model, x: Values, exponents: Sequence[float], coefficients: Values) -> Values:
    """Slopes of the curve by its parameters, shape (..., p)."""
    design = _design(x, exponents)
    if not model.free:
        return design
    logs = np.log(x, out=np.zeros_like(x), where=x > 0.0)
    return np.concatenate([design, (coefficients[-1] * design[..., -1] * logs)[..., None]], axis=-1)


def _exponent(x: Values, y: Values) -> float:
    """The exponent of the free term with the least squares, together with a constant: the best of a grid, then of finer
    grids around it."""
    low, high = _EXPONENTS
    deviations = y - y.mean()
    for _ in range(_ZOOMS):
        grid = np.linspace(low, high, _GRID)
        terms = np.power.outer(x, grid)
        terms -= terms.mean(axis=0)
        best = int(np.argmax((deviations @ terms) ** 2 / np.sum(terms**2, axis=0)))
        low, high = float(grid[max(0, best - 1)]), float(grid[min(_GRID - 1, best + 1)])
    return (low + high) / 2.0


def _first(sizes: Values, above: Values) -> float | None:
    """The first size at which a curve is no longer below zero, between grid points on a straight line."""
    places = np.flatnonzero(above >= 0.0)
    if not len(places):
        return None
    place = int(places[0])
    if place == 0:
        return float(sizes[0])
    share = above[place - 1] / (above[place - 1] - above[place])
    return float(sizes[place - 1] + share * (sizes[place] - sizes[place - 1]))
