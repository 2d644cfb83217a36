"""STUCK: a source repeats itself although time passes.

The readings of ``ticks`` ticks in a row are equal in every figure and for every entity. That
alone also happens with idle processes, so it counts only if at least two rates of
events or bytes of 10 per second and more stand still as well: those always jitter.
"""

from __future__ import annotations

from array import array

from acquisition.model.check_kind import CheckKind, Parameter
from acquisition.model.codes import STUCK
from acquisition.model.metric import COUNTER, ResourceSet
from probes.checks.check import Check, CheckSettings, mark_all, nothing, setting
from probes.sampling.reading import Reading

_JITTERY = ("1/s", "bytes/s")
_MIN_RATE = 10.0
_MIN_RATES = 2

_TICKS = Parameter("ticks", 10, 2, 86400, "number of equal consecutive readings of a stuck source")


def build(resource_set: ResourceSet, settings: CheckSettings) -> Check:
    """The stuck check: the ``ticks``-th equal reading and later ones are marked as a whole."""
    ticks = int(setting(settings, _TICKS))
    width = len(resource_set.metrics)
    rates = [i for i, m in enumerate(resource_set.metrics) if m.kind == COUNTER and m.unit in _JITTERY]
    if len(rates) < _MIN_RATES:
        return nothing
    before = b""
    equal = 1

    def check(reading: Reading) -> None:
        nonlocal before, equal
        figures = reading.values.tobytes()  # NaN equals itself here
        if figures != before:
            before = figures
            equal = 1
            return
        equal += 1
        if equal >= ticks and _moving(reading.values, rates, width):
            mark_all(reading, STUCK)

    return check


def _moving(values: array[float], rates: list[int], width: int) -> bool:
    found = sum(value >= _MIN_RATE for column in rates for value in values[column::width])
    return found >= _MIN_RATES


CHECK = CheckKind(
    "Source that repeats its values although time passes: STUCK.",
    build,
    (_TICKS,),
)
