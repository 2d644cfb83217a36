"""Rule inputs from a reading, or the reason they may not be used (pure).

Shared by all rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from acquisition.config.inputs import DEFAULT_WINDOW
from filters.decisions.overload_detection.order_statistics import quartiles
from filters.decisions.overload_detection.rule import Parameters
from filters.decisions.picture import CURRENT, VALID, Host, Reading, Vm
from filters.decisions.verdict import Figure, Verdict, abstain, measured

if TYPE_CHECKING:
    from acquisition.model.inputs import DecisionInputs


_WINDOW = round(DEFAULT_WINDOW.seconds)  #: default number of values in the filter's window, one per second

_STALE_TICKS = 3.0  #: maximum age in ticks of a value that is not stale, for ticks longer than a second


def usable(subject: Host | Vm, metric: str, parameters: Parameters) -> Reading | Verdict:
    """The reading of ``metric``, or the abstention of a rule that cannot use it.

    A reading is usable if its subject is current and its last valid value is at most ``stale_limit`` old. A raw value
    that failed a check is never used.
    """
    if subject.state != CURRENT:
        reason = f": {subject.reason}" if isinstance(subject, Host) and subject.reason else ""
        return abstain(f"{subject.name} is {subject.state}, {_age(subject.age_seconds)}{reason}")
    reading = subject.readings.get(metric)
    if reading is None:
        return abstain(f"MISSING: {subject.name} has no {metric}")
    if reading.stale_seconds is None:
        return abstain(f"{reading.validity}: {metric} never had a valid value", measured(metric, None, reading))
    if reading.stale_seconds > stale_limit(parameters, reading.interval):
        return abstain(
            f"{reading.validity}: {metric} has had no valid value for {reading.stale_seconds:.3g} s",
            measured(metric, None, reading),
        )
    if level(reading, parameters.smoothed) is None:
        return abstain(f"{reading.validity}: {metric} has no value", measured(metric, None, reading))
    return reading


def stale_limit(parameters: Parameters, interval: float) -> float:
    """Maximum age of the last valid value, in seconds: with long ticks, one invalid value is not yet a silence."""
    return max(parameters.stale_seconds, _STALE_TICKS * interval) if interval > 1.0 else parameters.stale_seconds


def level(reading: Reading, smoothed: bool) -> float | None:
    """u of the formulas: the moving average, or the raw value if valid."""
    if smoothed:
        return reading.mean
    return reading.last if reading.validity.startswith(VALID) else None


def level_figure(reading: Reading, smoothed: bool) -> Figure:
    """u as a figure of an explanation."""
    return measured(f"{reading.metric} {'mean' if smoothed else 'last'}", level(reading, smoothed), reading)


def history(reading: Reading, count: int, smoothed: bool = False) -> Sequence[float] | Verdict:
    """The last ``count`` valid values, oldest first, or the abstention of a rule whose window is not full.

    They are from the last 2 ``count`` ticks: as in ``enough``, at least half of these must be valid.
    """
    values, steps = reading.recent_means if smoothed else reading.recent, reading.recent_steps
    have = sum(step > steps[-1] - 2 * count for step in steps) if steps else len(values)
    have = min(have, sum(map(math.isfinite, values[-count:])))
    return warming(reading, have, count) if have < count else values[-count:]


def warming(reading: Reading, have: int, count: int) -> Verdict:
    """The abstention of a rule whose window is not full."""
    return abstain(
        f"WARMING: {have} of {count} valid values of {reading.metric}",
        measured(f"{reading.metric} valid values", float(have), reading),
    )


def above(reading: Reading, threshold: float, count: int) -> int | Verdict:
    """Number of the last ``count`` valid values above ``threshold``.

    From the recent values, or the filter's count if it counts as many values above the same threshold.
    """
    if len(reading.recent) >= count:
        return sum(value > threshold for value in reading.recent[-count:])
    inputs = reading.inputs
    if inputs is None or reading.recent:
        return warming(reading, len(reading.recent), count)
    if not as_long(count, inputs.counted, inputs.counted_seconds) or not _same(inputs.threshold, threshold):
        return abstain(
            f"MISSING: the filter counts values of {reading.metric} above {inputs.threshold:g} among "
            f"{inputs.counted}, the rule needs those above {threshold:g} among {count}: change [filter.inputs] "
            "or the rule"
        )
    kept = inputs.counted
    full = inputs.counted_valid == kept or (not inputs.warming and 2 * inputs.counted_valid >= kept)
    return inputs.above * count // kept if full else warming(reading, inputs.counted_valid, kept)


def extremes(reading: Reading, count: int) -> tuple[float, float] | Verdict:
    """Lowest and highest of the last ``count`` valid values.

    From the recent values, or from the filter if it keeps those of as many values. If fewer than that were valid in the
    ticks of k of n, older values are included, which are not a held level: the result is then minus and plus infinity.
    """
    if len(reading.recent) >= count:
        last = reading.recent[-count:]
        return min(last), max(last)
    inputs = reading.inputs
    if inputs is None or reading.recent:
        return warming(reading, len(reading.recent), count)
    if not as_long(count, inputs.plateau, inputs.plateau_seconds):
        return abstain(
            f"MISSING: the filter keeps lowest and highest of the last {inputs.plateau} values of "
            f"{reading.metric}, the rule needs {count}: change [filter.inputs] or the rule"
        )
    if inputs.lowest is None or inputs.highest is None:
        return warming(reading, inputs.valid, count)
    if inputs.counted_valid < inputs.plateau <= inputs.counted:
        return -math.inf, math.inf
    return inputs.lowest, inputs.highest


def held(reading: Reading, count: int) -> int:
    """Number of values of ``extremes``: fewer than ``count`` if ticks are longer than a second."""
    inputs = reading.inputs
    return count if inputs is None or len(reading.recent) >= count else min(count, inputs.plateau)


def upper_quartile(reading: Reading) -> float | None:
    """The third quartile of the window, from the filter or as many recent values; None if neither is available."""
    inputs = reading.inputs
    if reading.recent:
        values = history(reading, _WINDOW)
        return None if isinstance(values, Verdict) else quartiles(values)[1]
    return inputs.q3 if inputs is not None and inputs.ordered and enough(inputs) else None


def enough(inputs: DecisionInputs) -> bool:
    """Whether the filter's window is full, and at least half of it was valid."""
    return not inputs.warming and 2 * inputs.valid >= inputs.window


def as_long(count: int, kept: int, seconds: float) -> bool:
    """Whether the filter's ``kept`` values correspond to the ``count`` of a rule, one per second: fewer if ticks are
    longer."""
    return kept > 0 and count in (kept, round(seconds))


def _same(one: float | None, other: float) -> bool:
    """Equality as float32, the filter's type of thresholds."""
    return one is not None and abs(one - other) <= 1e-6 * max(abs(one), abs(other))


def _age(age: float | None) -> str:
    return "of unknown age" if age is None else f"{age:.3g} s old"
