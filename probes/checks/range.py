"""RANGE: a value outside its physical range (Andreolini et al., CloudCP 2011).

It runs before all other checks.

A value must lie in [low, high] of its metric, or of ``checks.range.limits``; limits of the sampled machine are left to
the check ``rate``. Infinite values fail; NaN is no value and has no range, its reason comes from elsewhere.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from acquisition.model.check_kind import CheckKind, Parameter
from acquisition.model.codes import RANGE
from acquisition.model.metric import ResourceSet
from probes.checks.check import ROUNDING, Check, CheckSettings, mark_outside
from probes.sampling.native import COLUMNS
from probes.sampling.reading import Reading

_FINITE = 1.7976931348623157e308

_LIMITS = Parameter("limits", {}, 0, 0, "metric = [low, high], inclusive, instead of the metric's own limits")


def build(resource_set: ResourceSet, settings: CheckSettings) -> Check:
    """The range check of a resource set; ``limits``: metric -> (low, high) in place of its own."""
    width = len(resource_set.metrics)
    limits = _limits(resource_set, settings.get(_LIMITS.name, {}))
    lows, highs = array("d", [low for low, _ in limits]), array("d", [high for _, high in limits])

    def check(reading: Reading) -> None:
        for column in COLUMNS.outside(reading.values, lows, highs):
            mark_outside(reading, range(column, len(reading.codes), width), lows[column], highs[column], RANGE)

    return check


def _limits(resource_set: ResourceSet, own: object) -> list[tuple[float, float]]:
    overrides = own if isinstance(own, Mapping) else {}
    found = []
    for metric in resource_set.metrics:
        low, high = overrides.get(metric.name, (metric.low, metric.high))
        found.append((max(float(low), -_FINITE), min(float(high) * ROUNDING, _FINITE)))
    return found


CHECK = CheckKind(
    "Physically impossible, NaN or infinite value: RANGE.",
    build,
    (_LIMITS,),
)
