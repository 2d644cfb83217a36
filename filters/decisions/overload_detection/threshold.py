"""Threshold with hysteresis, k of n and plateau.

A host becomes hot when u > ``enter`` and at least k of its last n valid raw values exceed ``high``, or when its last
m valid raw values are a plateau: all of them exceed ``high`` and the highest is less than ``plateau_range`` above the
lowest. With ticks longer than a second, the m seconds of a plateau are fewer values, and u > ``enter`` is required as
well: a spike may fill so few, but does not raise the average that far. A host stays hot while u is above ``low`` and
values above ``high`` are recent, or there is a plateau.

    hot   if (u > enter and k of n values > high) or (m values > high and highest - lowest < plateau_range)
    still hot   if (u > low and (1 of n values or the upper quartile of the window > high)) or (the same plateau)

So an alarm ends when the load falls to ``low``, or within the window (30 s) if it stays elsewhere below ``high``: a
level between the two is not an overload, and would be reported for ever. The window gives a host being relieved time
for its next migration. With k = 0 the level alone decides: the alarm lasts while u > low.

``enter`` defaults to ``high``; raw values show an overload before an average reaches it. A plateau is detected after
fewer values than k of n needs: a spike of that length begins and ends within samples, so its first and last value
differ from those between (docs/smoothing.md).

A level above a threshold for some time is the condition of oVirt's balancing (HighUtilization for
CpuOverCommitDuration, documentation of the evenly_distributed policy) and Proxmox CRS (imbalance held for some rounds);
k of n is from Sandpiper (Wood and others, NSDI 2007); two thresholds are a Schmitt trigger; the plateau is our own.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from acquisition.config.inputs import Inputs
from filters.decisions.overload_detection import rule_inputs
from filters.decisions.overload_detection.rule import OneMetric, Rule, Share, Window
from filters.decisions.picture import CPU, Host, Reading, Vm
from filters.decisions.verdict import HOT, Figure, Verdict, decide

#: Counts and values kept by the filter by default, at one tick per second; the rule then needs no recent values.
_KEPT = Inputs()


class Parameters(OneMetric, frozen=True):
    """``low`` must not be above ``high`` and ``enter``, nor ``k`` above ``n``. ``enter`` None: the same as ``high``.

    ``plateau`` is m; None or 0: plateaus are ignored.
    """

    high: Share = _KEPT.thresholds[f"host.{CPU}"]
    low: Share = 0.8
    k: Annotated[int, Meta(ge=0, le=120)] = 6
    n: Window = round(_KEPT.counted_seconds)
    enter: Share | None = 0.8
    plateau: Annotated[int, Meta(ge=0, le=120)] | None = round(_KEPT.plateau_seconds)
    plateau_range: Share = 0.07

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} exceeds high {self.high:g}")
        if self.enter is not None and self.low > self.enter:
            raise ValueError(f"low {self.low:g} exceeds enter {self.enter:g}")
        if self.k > self.n:
            raise ValueError(f"k {self.k} exceeds n {self.n}")

    @property
    def cool(self) -> float:
        """``low``: no alarm lasts at this level."""
        return self.low


def judge(subject: Host | Vm, parameters: Parameters, was_hot: bool = False) -> Verdict:
    """Hot by a plateau, above ``enter`` with k of n, or still hot above ``low``."""
    reading = rule_inputs.usable(subject, parameters.metric, parameters)
    if isinstance(reading, Verdict):
        return reading
    by_level = _still(reading, parameters) if was_hot else _begins(reading, parameters)
    if by_level.outcome is HOT or not parameters.plateau:
        return by_level
    return _plateau(reading, parameters, parameters.plateau) or by_level


def _still(reading: Reading, parameters: Parameters) -> Verdict:
    shown, u = rule_inputs.level_figure(reading, parameters.smoothed), _level(reading, parameters)
    limit = Figure("low", parameters.low, reading.unit)
    if u <= parameters.low:
        return decide(False, f"{shown.name} {u:.3g} fell to {limit.value:g}", u - parameters.low, shown, limit)
    words = f"{shown.name} {u:.3g} is still above {limit.value:g}"
    if not parameters.k:
        return decide(True, words, u - parameters.low, shown, limit)
    if _is_recent(reading, parameters):
        return decide(True, words, u - parameters.low, shown, limit)
    words += f", but no recent value is above {parameters.high:g}"
    return decide(False, words, u - parameters.high, shown, limit, Figure("high", parameters.high, reading.unit))


def _is_recent(reading: Reading, parameters: Parameters) -> bool:
    """Whether the load was above ``high`` recently: one of n values, or a quarter of the window. If neither is known,
    the alarm is not ended."""
    above = rule_inputs.above(reading, parameters.high, parameters.n)
    upper = rule_inputs.upper_quartile(reading)
    if isinstance(above, Verdict):
        return upper is None or upper > parameters.high
    return above > 0 or (upper is not None and upper > parameters.high)


def _begins(reading: Reading, parameters: Parameters) -> Verdict:
    shown, u = rule_inputs.level_figure(reading, parameters.smoothed), _level(reading, parameters)
    enter = _enter(parameters)
    limit = Figure("high" if parameters.enter is None else "enter", enter, reading.unit)
    if u <= enter:
        return decide(False, f"{shown.name} {u:.3g} is not above {limit.value:g}", u - enter, shown, limit)
    if not parameters.k:
        return decide(True, f"{shown.name} {u:.3g} is above {limit.value:g}", u - enter, shown, limit)
    above = rule_inputs.above(reading, parameters.high, parameters.n)
    if isinstance(above, Verdict):
        return above
    return decide(
        above >= parameters.k,
        f"{shown.name} {u:.3g} is above {limit.value:g}, {above} of the last {parameters.n} values are above "
        f"{parameters.high:g}",
        u - enter, shown, limit, Figure("above", float(above), "count"),
        Figure("k", float(parameters.k), "count"), Figure("n", float(parameters.n), "count"),
    )  # fmt: skip


def _plateau(reading: Reading, parameters: Parameters, count: int) -> Verdict | None:
    """Hot if there is a plateau, an abstention if that is unknown, otherwise None."""
    found = rule_inputs.extremes(reading, count)
    if isinstance(found, Verdict):
        return found
    lowest, highest = found
    if lowest <= parameters.high or highest - lowest >= parameters.plateau_range:
        return None
    values, unit = rule_inputs.held(reading, count), reading.unit
    if values < count and _level(reading, parameters) <= _enter(parameters):
        return None  # a spike may fill so few values
    return decide(
        True,
        f"the last {values} values of {reading.metric} are above {parameters.high:g} and at most "
        f"{highest - lowest:.2g} apart",
        lowest - parameters.high,
        rule_inputs.level_figure(reading, parameters.smoothed), Figure("high", parameters.high, unit),
        Figure("lowest", lowest, unit), Figure("highest", highest, unit),
        Figure("plateau_range", parameters.plateau_range, unit), Figure("plateau", float(values), "count"),
    )  # fmt: skip


def _level(reading: Reading, parameters: Parameters) -> float:
    return rule_inputs.level(reading, parameters.smoothed) or 0.0


def _enter(parameters: Parameters) -> float:
    return parameters.high if parameters.enter is None else parameters.enter


RULE = Rule(
    "threshold",
    "threshold with hysteresis, k of n and plateau",
    "u > `enter` and `k` of the last `n` raw values > `high`, or a plateau: the last `plateau` raw values (fewer of "
    "longer ticks, with u > `enter`) all > `high` and less than `plateau_range` apart; hot stays hot while u > `low` "
    "and one of n values or a quarter of the window is above `high`, or the plateau lasts",
    "oVirt evenly_distributed; k of n: Wood and others, Sandpiper, NSDI 2007",
    Parameters(),
    judge,
)
