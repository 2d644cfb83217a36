"""Check type, with the columns used by checks and the marking of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isnan

from acquisition.model.check_kind import Parameter
from acquisition.model.codes import VALID
from acquisition.model.metric import ResourceSet
from probes.sampling.reading import Reading

Check = Callable[[Reading], None]
CheckSettings = Mapping[str, object]  #: the TOML table [checks.NAME], already validated
ROUNDING = 1.0 + 1e-9  #: a ratio of floats may exceed 1 by its last bit


def nothing(reading: Reading) -> None:
    """Check for a resource set to which a check does not apply; the pipeline leaves it out."""
    del reading


def column_of(resource_set: ResourceSet, name: str) -> int:
    """Column of a metric, -1 if the set does not have it."""
    return next((i for i, metric in enumerate(resource_set.metrics) if metric.name == name), -1)


def setting(settings: CheckSettings, parameter: Parameter) -> float:
    """A number in the check's table. Raises TypeError if it is invalid: the configuration promised one."""
    value = settings.get(parameter.name, parameter.default)
    if not isinstance(value, int | float):
        raise TypeError(f"{parameter.name} = {value!r}: expected a number")
    return float(value)


def mark_all(reading: Reading, code: int) -> None:
    """Give ``code`` to every still valid sample of the reading."""
    reading.codes[:] = reading.codes.replace(b"\0", bytes((code,)))


def mark_outside(reading: Reading, places: Iterable[int], low: float, high: float, code: int) -> None:
    """Give ``code`` to the samples at ``places`` that are still valid and outside [low, high]; NaN is no value."""
    for i in places:
        value = reading.values[i]
        if not low <= value <= high and reading.codes[i] == VALID and not isnan(value):
            reading.codes[i] = code
