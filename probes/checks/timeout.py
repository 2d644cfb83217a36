"""TIMEOUT: no answer from the source within its tick.

A late source still owes its entities a reading: ``timed_out`` makes it, without a
value. The check marks any reading without a sample that has a value or another reason.
"""

from __future__ import annotations

from array import array
from math import isnan

from acquisition.model.check_kind import CheckKind
from acquisition.model.codes import NAN, TIMEOUT, VALID
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.checks.check import Check, CheckSettings
from probes.sampling.reading import Reading


def timed_out(
    resource_set: ResourceSet, entities: list[Entity], wall: float, monotonic: float, dt: float = 0.0
) -> Reading:
    """Reading of a source that did not answer: no values, every code TIMEOUT."""
    cells = len(entities) * len(resource_set.metrics)
    return Reading(
        resource_set, entities, array("d", [NAN]) * cells, bytearray((TIMEOUT,)) * cells, wall, monotonic, dt
    )


def build(resource_set: ResourceSet, settings: CheckSettings) -> Check:
    """The timeout check. No parameters: each source has its own time limit."""
    del resource_set, settings

    def check(reading: Reading) -> None:
        values = reading.values
        if not values or not isnan(values[0]) or any(reading.codes):
            return
        if all(map(isnan, values)):
            reading.codes[:] = reading.codes.replace(bytes((VALID,)), bytes((TIMEOUT,)))

    return check


CHECK = CheckKind("Source that did not answer within its tick: TIMEOUT.", build)
