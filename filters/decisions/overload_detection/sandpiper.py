"""Sandpiper's hotspot: k of n and a one-step prediction.

    hot if at least k of the last n values exceed T and the prediction of the next value exceeds T

Wood, Shenoy, Venkataramani, Yousif: Black-box and gray-box strategies for virtual machine migration, NSDI 2007.
By default k = 3, n = 5 and T = 75%. Every metric is tested; one hot metric makes the host hot.

The prediction is a first-order autoregression; mu is the mean of the window, phi the least-squares
estimate over it: sum (u_i - mu)(u_{i-1} - mu) / sum (u_{i-1} - mu)^2, 0 for a constant window.

``onward``    u + phi (u - mu): continues from the last value in its direction away from the mean
``reverting`` mu + phi (u - mu): the textbook AR(1), which returns to the mean (Box and Jenkins, chapter 3)

With ``smoothed`` the values are the moving averages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

from msgspec import Meta

from filters.decisions.overload_detection import rule_inputs
from filters.decisions.overload_detection.rule import Parameters as Base
from filters.decisions.overload_detection.rule import Rule, Share, Window
from filters.decisions.picture import CPU, MEMORY, NETWORK, Host, Reading, Vm
from filters.decisions.verdict import Figure, Outcome, Verdict, decide, measured


class Parameters(Base, frozen=True):
    """``window``: number of values from which mu and phi are estimated."""

    smoothed: bool = False
    metrics: Annotated[tuple[str, ...], Meta(min_length=1)] = (CPU, NETWORK, MEMORY)
    threshold: Share = 0.75
    k: Window = 3
    n: Window = 5
    window: Annotated[int, Meta(ge=3, le=120)] = 30
    predictor: Literal["onward", "reverting"] = "onward"

    @property
    def watched(self) -> tuple[str, ...]:
        """The tested metrics."""
        return self.metrics

    @property
    def cool(self) -> float:
        """The threshold."""
        return self.threshold

    def __post_init__(self) -> None:
        if self.k > self.n:
            raise ValueError(f"k {self.k} exceeds n {self.n}")
        if self.n > self.window:
            raise ValueError(f"n {self.n} exceeds window {self.window}")


def judge(subject: Host | Vm, parameters: Parameters, _was_hot: bool = False) -> Verdict:
    """Hot if any metric is; otherwise the rule abstains if one does."""
    verdicts = [_judge_metric(subject, metric, parameters) for metric in parameters.metrics]
    for wanted in (Outcome.HOT, Outcome.ABSTAINED):
        found = [verdict for verdict in verdicts if verdict.outcome == wanted]
        if found:
            return max(found, key=lambda verdict: verdict.excess or 0.0)
    figures = tuple(figure for verdict in verdicts for figure in verdict.figures)
    highest = max(verdicts, key=lambda verdict: verdict.excess or 0.0)
    return Verdict(Outcome.NOT_HOT, highest.reason, figures, highest.excess)


def _judge_metric(subject: Host | Vm, metric: str, parameters: Parameters) -> Verdict:
    reading = rule_inputs.usable(subject, metric, parameters)
    if isinstance(reading, Verdict):
        return reading
    values = rule_inputs.history(reading, parameters.window, parameters.smoothed)
    if isinstance(values, Verdict):
        return values
    return _decide(reading, values, parameters)


def _decide(reading: Reading, values: Sequence[float], parameters: Parameters) -> Verdict:
    threshold = parameters.threshold
    above = sum(value > threshold for value in values[-parameters.n :])
    mu, phi, predicted = predict(values, parameters.predictor)
    return decide(
        above >= parameters.k and predicted > threshold,
        f"{reading.metric}: {above} of the last {parameters.n} values are above {threshold:g} (needed: "
            f"{parameters.k}), predicted next value {predicted:.3g}",
        predicted - threshold,
        measured(f"{reading.metric} {'mean' if parameters.smoothed else 'last'}", values[-1], reading),
        Figure("threshold", threshold, reading.unit), Figure("above", float(above), "count"),
        Figure("mu", mu, reading.unit), Figure("phi", phi), Figure("predicted", predicted, reading.unit),
    )  # fmt: skip


def predict(values: Sequence[float], predictor: str) -> tuple[float, float, float]:
    """mu, phi and the prediction of the value after ``values`` (two or more, oldest first)."""
    mu = sum(values) / len(values)
    offsets = [value - mu for value in values]
    power = sum(offset * offset for offset in offsets[:-1])
    # rounding errors of a constant window are not variation
    constant = power <= len(values) * (1e-9 * max(1.0, abs(mu))) ** 2
    phi = 0.0 if constant else sum(b * a for a, b in pairwise(offsets)) / power
    start = values[-1] if predictor == "onward" else mu
    return mu, phi, start + phi * offsets[-1]


RULE = Rule(
    "sandpiper",
    "Sandpiper's hotspot: k of n and a one-step prediction",
    "`k` of the last `n` values > `threshold`, and the predicted next one too; any of `metrics`",
    "Wood and others, Black-box and gray-box strategies for virtual machine migration, NSDI 2007",
    Parameters(),
    judge,
    history=True,
)
