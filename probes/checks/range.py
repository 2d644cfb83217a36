"""Physical range, the first check of all (Andreolini et al., CloudCP 2011): RANGE.

A value must lie in [low, high] of its metric, or of ``checks.range.limits``, and within the
machine that was sampled, where that is known:

- CPU of a process (unit ``cores``) in [0, cores], with 5% and two clock ticks to spare, for
  times are counted in ticks and the interval is measured by another clock;
- memory gauges of the host and resident memory within its memory.

Infinite values fail; NaN is no value and has no range, its reason comes from elsewhere.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from math import isnan

from acquisition.model.check_kind import CheckKind, Parameter
from acquisition.model.codes import RANGE, VALID
from acquisition.model.metric import ResourceSet
from probes.checks.check import Check, CheckSettings
from probes.metric_kinds import CORES
from probes.metrics import WITHIN_MEMORY
from probes.native import COLUMNS
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
    lows, own = array("d", [low for low, _ in limits]), [high for _, high in limits]
    of_cores = [i for i, metric in enumerate(resource_set.metrics) if metric.unit == CORES]
    of_memory = [i for i, metric in enumerate(resource_set.metrics) if metric.name in WITHIN_MEMORY]
    highs = array("d", own)
    before = 0.0  # bytes of memory

    def check(reading: Reading) -> None:
        nonlocal before
        if of_cores:
            cpu = _most_cpu(reading)
            for column in of_cores:
                highs[column] = cpu if cpu < own[column] else own[column]
        memory = reading.memory_bytes or _FINITE
        if memory != before:
            before = memory
            for column in of_memory:
                highs[column] = min(own[column], memory)
        for column in COLUMNS.outside(reading.values, lows, highs):
            _mark(reading, column, width, lows[column], highs[column])

    return check


def _most_cpu(reading: Reading) -> float:
    if not reading.cores:
        return _FINITE
    return reading.cores * _CORES_SPARE + (_TICKS_SPARE / reading.dt if reading.dt > 0 else _TICKS_SPARE)


def _mark(reading: Reading, column: int, width: int, low: float, high: float) -> None:
    codes = reading.codes
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


CHECK = CheckKind(
    "A value outside what is physically possible, NaN or infinite: RANGE.",
    build,
    (_LIMITS,),
)
