"""Threshold with hysteresis and k of n.

A host becomes hot when u > high and at least k of its last n valid raw values exceed high; it stays hot
until u falls to low or below. With k = 0 the level alone decides. Where ``enter`` is given it stands for high
in the first condition: raw values tell an overload sooner than a slow average reaches it (docs/smoothing.md).

The level above a threshold for a while is what oVirt's balancing (HighUtilization for CpuOverCommitDuration,
documentation of the evenly_distributed policy) and Proxmox CRS (imbalance held for some rounds) wait for; k of n
is Sandpiper's (Wood and others, NSDI 2007); two thresholds are a Schmitt trigger.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from acquisition.config.inputs import Inputs
from filters.decisions import evidence
from filters.decisions.picture import CPU, Host, Vm
from filters.decisions.rule import OneMetric, Rule, Share, Window
from filters.decisions.verdict import Figure, Verdict, decide

#: The filter counts above this threshold, so that the rule need not read the recent values.
_COUNTED = Inputs()
_HIGH = _COUNTED.thresholds[f"host.{CPU}"]


class Parameters(OneMetric, frozen=True):
    """``low`` must not be above ``high`` and ``enter``, nor ``k`` above ``n``. ``enter`` None: the same as ``high``."""

    high: Share = _HIGH
    low: Share = round(_HIGH - 0.1, 6)
    k: Annotated[int, Meta(ge=0, le=120)] = 3
    n: Window = _COUNTED.counted
    enter: Share | None = None

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        if self.enter is not None and self.low > self.enter:
            raise ValueError(f"low {self.low:g} is above enter {self.enter:g}")
        if self.k > self.n:
            raise ValueError(f"k {self.k} is above n {self.n}")


def judge(subject: Host | Vm, parameters: Parameters, was_hot: bool = False) -> Verdict:
    """Hot above ``high`` with k of n, or still hot above ``low``."""
    reading = evidence.usable(subject, parameters.metric, parameters)
    if isinstance(reading, Verdict):
        return reading
    shown = evidence.level_figure(reading, parameters.smoothed)
    u = evidence.level(reading, parameters.smoothed) or 0.0
    if was_hot:
        limit = Figure("low", parameters.low, reading.unit)
        verb = "is still above" if u > parameters.low else "fell to"
        return decide(
            u > parameters.low, f"{shown.name} {u:.3g} {verb} {limit.value:g}", u - parameters.low, shown, limit
        )
    enter = parameters.high if parameters.enter is None else parameters.enter
    limit = Figure("high" if parameters.enter is None else "enter", enter, reading.unit)
    if u <= enter:
        return decide(False, f"{shown.name} {u:.3g} is not above {limit.value:g}", u - enter, shown, limit)
    if not parameters.k:
        return decide(True, f"{shown.name} {u:.3g} is above {limit.value:g}", u - enter, shown, limit)
    above = evidence.above(reading, parameters.high, parameters.n)
    if isinstance(above, Verdict):
        return above
    return decide(
        above >= parameters.k,
        f"{shown.name} {u:.3g} is above {limit.value:g}, {above} of the last {parameters.n} values are above "
        f"{parameters.high:g}",
        u - enter, shown, limit, Figure("above", float(above), "count"),
        Figure("k", float(parameters.k), "count"), Figure("n", float(parameters.n), "count"),
    )  # fmt: skip


RULE = Rule(
    "threshold",
    "threshold with hysteresis and k of n",
    "oVirt evenly_distributed; k of n: Wood and others, Sandpiper, NSDI 2007",
    Parameters(),
    judge,
)
