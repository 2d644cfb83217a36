"""CUSUM on the baseline of the moving average.

    d = max(0, d + y - mu - K); alarm when d > H

Andreolini, Casolari, Colajanni, Messori: Dynamic load management of virtual machines in cloud architectures,
CloudComp 2009; the statistic is Page's (Biometrika 41, 1954). y is the raw value, mu the moving average before
it; the filter computes d at every tick, with its own K (``[filter.inputs]``). If the reader has
recent values and averages but no inputs, d is summed over these, with ``drift`` as K.

CUSUM detects a rise at any level. A host is hot only if, besides the alarm, u exceeds ``level``;
at 0 the formula decides alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from filters.decisions.overload_detection import rule_inputs
from filters.decisions.overload_detection.rule import NotNegative, OneMetric, Rule, Share
from filters.decisions.picture import Host, Reading, Vm
from filters.decisions.verdict import Figure, Verdict, decide


class Parameters(OneMetric, frozen=True):
    """``limit`` is H, ``drift`` is K, ``window`` how many values are summed where the filter gives no d."""

    limit: NotNegative = 0.5
    drift: NotNegative = 0.05
    level: Share = 0.0
    window: Annotated[int, Meta(ge=2, le=120)] = 30

    @property
    def cool(self) -> float | None:
        """The level, if one is set."""
        return self.level or None


def judge(subject: Host | Vm, parameters: Parameters, _was_hot: bool = False) -> Verdict:
    """Hot if d > H, and u > level."""
    reading = rule_inputs.usable(subject, parameters.metric, parameters)
    if isinstance(reading, Verdict):
        return reading
    d = _statistic(reading, parameters)
    if isinstance(d, Verdict):
        return d
    shown = rule_inputs.level_figure(reading, parameters.smoothed)
    u = rule_inputs.level(reading, parameters.smoothed) or 0.0
    alarm = d > parameters.limit
    hot = alarm and (u > parameters.level or not parameters.level)
    low = "" if hot or not alarm else f", but {shown.name} {u:.3g} is not above {parameters.level:g}"
    return decide(
        hot,
        f"CUSUM of {reading.metric} is {d:.3g}, {'above' if alarm else 'not above'} {parameters.limit:g}{low}",
        d - parameters.limit if hot or not alarm else u - parameters.level,
        shown, Figure("d", d, reading.unit), Figure("H", parameters.limit, reading.unit),
        Figure("level", parameters.level, reading.unit),
    )  # fmt: skip


def _statistic(reading: Reading, parameters: Parameters) -> float | Verdict:
    inputs = reading.inputs
    if inputs is not None:
        full = rule_inputs.enough(inputs)
        return inputs.cusum if full else rule_inputs.warming(reading, inputs.valid, inputs.window)
    values = rule_inputs.history(reading, parameters.window)
    means = rule_inputs.history(reading, parameters.window, smoothed=True)
    if isinstance(values, Verdict):
        return values
    return means if isinstance(means, Verdict) else cusum(values, means, parameters.drift)


def cusum(values: Sequence[float], means: Sequence[float], drift: float) -> float:
    """d after ``values``, from 0; ``means`` are the moving averages after each of them."""
    d = 0.0
    for value, before in zip(values[1:], means, strict=False):
        d = max(0.0, d + value - before - drift)
    return d


RULE = Rule(
    "cusum",
    "CUSUM on the moving average",
    "d > `limit` with d = max(0, d + y - mean - `drift`), and u > `level`",
    "Andreolini and others, Dynamic load management of virtual machines in cloud architectures, CloudComp 2009",
    Parameters(),
    judge,
)
