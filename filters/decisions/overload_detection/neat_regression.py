"""OpenStack Neat's local regression: load predicted for the end of a migration.

A host is overloaded if the prediction is too high.

    y = a + b x fitted to the last n values at x = 1 … n by weighted least squares;
    overloaded if s * (a + b * (n + migration time / dt)) >= T

Beloglazov, Buyya, Concurrency and Computation 24, 2012, with the tricube weights of Cleveland
(Robust locally weighted regression, JASA 74, 1979) around the newest value:
w_i = (1 - ((n - i) / (n - 1))^3)^3, minimising sum w_i (y_i - a - b x_i)^2. (Neat's own code multiplies the
residuals by w before squaring them, which weights by w^2.) dt is the interval of the readings. Ticks
without a valid value are skipped, as if the others were consecutive.
With ``smoothed`` the values are the moving averages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated

from msgspec import Meta

from filters.decisions.overload_detection import rule_inputs
from filters.decisions.overload_detection.rule import NotNegative, OneMetric, Positive, Rule
from filters.decisions.picture import Host, Vm
from filters.decisions.verdict import Figure, Verdict, decide, measured


class Parameters(OneMetric, frozen=True):
    """``safety`` is s, ``migration_seconds`` the time from the decision to the end of a migration."""

    smoothed: bool = False
    safety: Positive = 1.2
    threshold: Positive = 1.0
    window: Annotated[int, Meta(ge=3, le=120)] = 30
    migration_seconds: NotNegative = 10.0

    @property
    def cool(self) -> float:
        """T / s: a held level is detected from there on."""
        return self.threshold / self.safety


def judge(subject: Host | Vm, parameters: Parameters, _was_hot: bool = False) -> Verdict:
    """Hot if s times the prediction for the end of a migration reaches T."""
    reading = rule_inputs.usable(subject, parameters.metric, parameters)
    if isinstance(reading, Verdict):
        return reading
    values = rule_inputs.history(reading, parameters.window, parameters.smoothed)
    if isinstance(values, Verdict):
        return values
    intercept, slope = fit(values)
    predicted = intercept + slope * (len(values) + parameters.migration_seconds / reading.interval)
    guarded = parameters.safety * predicted
    hot = guarded >= parameters.threshold
    return decide(
        hot,
        f"{parameters.safety:g} times {predicted:.3g}, the {reading.metric} predicted for "
        f"{parameters.migration_seconds:g} s from now, is {'not ' if hot else ''}below {parameters.threshold:g}",
        guarded - parameters.threshold,
        measured(f"{reading.metric} {'mean' if parameters.smoothed else 'last'}", values[-1], reading),
        Figure("slope", slope / reading.interval, f"{reading.unit}/s"), Figure("predicted", predicted, reading.unit),
        Figure("s", parameters.safety), Figure("threshold", parameters.threshold, reading.unit),
        Figure("migration time", parameters.migration_seconds, "s"),
    )  # fmt: skip


@cache
def tricube(count: int) -> tuple[float, ...]:
    """The weights of ``count`` values (two or more); the newest has 1, the oldest 0."""
    spread = count - 1.0
    return tuple((1.0 - ((count - i) / spread) ** 3) ** 3 for i in range(1, count + 1))


def fit(values: Sequence[float]) -> tuple[float, float]:
    """a and b of the weighted regression line through three or more values."""
    weights = tricube(len(values))
    total = sum(weights)
    mean_x = sum(w * x for x, w in enumerate(weights, 1)) / total
    mean_y = sum(w * y for w, y in zip(weights, values, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for x, w in enumerate(weights, 1))
    joint = sum(w * (x - mean_x) * (y - mean_y) for x, (w, y) in enumerate(zip(weights, values, strict=True), 1))
    slope = joint / spread
    return mean_y - slope * mean_x, slope


RULE = Rule(
    "neat_regression",
    "Neat: local regression to the end of a migration",
    "`safety` (a + b (n + migration time / interval)) >= `threshold`",
    "Beloglazov and Buyya, Concurrency and Computation 24, 2012; Cleveland, JASA 74, 1979",
    Parameters(),
    judge,
    history=True,
)
