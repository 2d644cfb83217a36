"""Physical range, the first check of all (Andreolini et al., CloudCP 2011): RANGE.

A value must lie in [low, high] of its metric, or of ``checks.range.limits``, and within the
machine that was sampled, where that is known:

- CPU of a process (unit ``cores``) in [0, cores], with 5% and two clock ticks to spare, for
  times are counted in ticks and the interval is measured by another clock;
- memory gauges of the host and resident memory within its memory.

Infinite values fail; NaN is no value and has no range, its reason comes from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan

from acquisition.model.check_kind import CheckKind, Parameter
from acquisition.model.codes import RANGE, VALID
from acquisition.model.metric import ResourceSet
from probes.checks.check import Check, CheckSettings
from probes.metric_kinds import CORES
from probes.metrics import WITHIN_MEMORY
from probes.reading import Reading

_FINITE = 1.7976931348623157e308
_CORES_SPARE = 1.05
_TICKS_SPARE = 0.02  # seconds: two ticks of 1/100 s
_ROUNDING = 1.0 + 1e-9  # a ratio of floats may exceed 1 by its last bit

_LIMITS = Parameter("limits", {}, 0, 0, "metric = [low, high], inclusive, in place of the metric's own limits")


def build(resource_set: ResourceSet, settings: CheckSettings) -> Check:
    """The range check of a resource set; ``limits``: metric -> (low, high) in place of its own."""
    width = len(resource_set.metrics)
    limits = _limits(resource_set, settings.get(_LIMITS.name, {}))
    lows = [low for low, _ in limits]
    machine: tuple[float, float, float] = (-1.0, -1.0, -1.0)
    highs: list[float] = []

    def check(reading: Reading) -> None:
        nonlocal machine, highs
        now = (float(reading.cores), reading.memory_bytes, reading.dt)
        if now != machine:
            machine = now
            highs = _highs(resource_set, [high for _, high in limits], now)
        values = reading.values
        if not values:
            return
        total = sum(values)
        suspect = total - total != 0.0  # a NaN or an infinity somewhere: min() and max() may not see it
        for column in range(width):
            figures = values[column::width]
            inside = lows[column] <= min(figures) and max(figures) <= highs[column]
            if not inside or (suspect and isnan(sum(figures))):
                _mark(reading, column, width, lows[column], highs[column])

    return check


def _mark(reading: Reading, column: int, width: int, low: float, high: float) -> None:
    codes = reading.codes
    if VALID not in codes[column::width]:
        return
    for i, value in zip(range(column, len(codes), width), reading.values[column::width], strict=True):
        if not low <= value <= high and codes[i] == VALID and not isnan(value):
            codes[i] = RANGE


def _limits(resource_set: ResourceSet, own: object) -> list[tuple[float, float]]:
    overrides = own if isinstance(own, Mapping) else {}
    found = []
    for metric in resource_set.metrics:
        low, high = overrides.get(metric.name, (metric.low, metric.high))
        found.append((max(float(low), -_FINITE), min(float(high) * _ROUNDING, _FINITE)))
    return found


def _highs(resource_set: ResourceSet, highs: list[float], machine: tuple[float, float, float]) -> list[float]:
    cores, memory, seconds = machine
    cpu = cores * _CORES_SPARE + (_TICKS_SPARE / seconds if seconds > 0 else _TICKS_SPARE)
    found = []
    for metric, high in zip(resource_set.metrics, highs, strict=True):
        if cores and metric.unit == CORES:
            found.append(min(high, cpu))
        elif memory and metric.name in WITHIN_MEMORY:
            found.append(min(high, memory))
        else:
            found.append(high)
    return found


CHECK = CheckKind(
    "A value outside what is physically possible, NaN or infinite: RANGE.",
    build,
    (_LIMITS,),
)
