"""Spread-based adaptive threshold, shared by Neat's MAD and IQR rules.

Beloglazov, Buyya: Optimal online deterministic algorithms and adaptive heuristics for energy and performance
efficient dynamic consolidation of virtual machines in cloud data centers, Concurrency and Computation 24, 2012:
the more a host's CPU varies, the lower the level at which it counts as overloaded.

    overloaded if u >= 1 - s * spread

The spread is that of the raw values; with ``smoothed`` the level u is the moving average. It is computed from
the recent values, or taken from the filter if its window has the same length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from filters.decisions.overload_detection import rule_inputs
from filters.decisions.overload_detection.rule import NotNegative, OneMetric, Window
from filters.decisions.picture import Host, Reading, Vm
from filters.decisions.verdict import Figure, Verdict, abstain, decide


class Parameters(OneMetric, frozen=True):
    """``safety`` is s: the greater, the earlier a varying host is hot."""

    safety: NotNegative = 2.5
    window: Window = 30


def judge(
    subject: Host | Vm,
    parameters: Parameters,
    name: str,
    of_values: Callable[[Sequence[float]], float],
    of_inputs: Callable[[Reading], float | None],
) -> Verdict:
    """Hot if u >= 1 - s * spread; ``name``: name of the spread."""
    reading = rule_inputs.usable(subject, parameters.metric, parameters)
    if isinstance(reading, Verdict):
        return reading
    spread = _spread(reading, parameters.window, of_values, of_inputs)
    if isinstance(spread, Verdict):
        return spread
    shown = rule_inputs.level_figure(reading, parameters.smoothed)
    u = rule_inputs.level(reading, parameters.smoothed) or 0.0
    limit = 1.0 - parameters.safety * spread
    return decide(
        u >= limit,
        f"{shown.name} {u:.3g} is {'not below' if u >= limit else 'below'} "
        f"1 - {parameters.safety:g} * {name} = {limit:.3g}",
        u - limit, shown, Figure(name, spread, reading.unit), Figure("s", parameters.safety),
        Figure("limit", limit, reading.unit),
    )  # fmt: skip


def _spread(
    reading: Reading,
    window: int,
    of_values: Callable[[Sequence[float]], float],
    of_inputs: Callable[[Reading], float | None],
) -> float | Verdict:
    values = rule_inputs.history(reading, window)
    if not isinstance(values, Verdict):
        return of_values(values)
    inputs = reading.inputs
    if inputs is None or not rule_inputs.as_long(window, inputs.window, inputs.window_seconds):
        return values
    if not inputs.ordered:
        return abstain(
            f"MISSING: the filter keeps no order statistics of {reading.metric}: add its resource set to "
            "[filter.inputs] order_statistics"
        )
    spread = of_inputs(reading) if rule_inputs.enough(inputs) else None
    return rule_inputs.warming(reading, inputs.valid, window) if spread is None else spread
