"""FIRST: a counter without a predecessor has no rate.

Applies to rates without a value of entities missing in the previous reading; a new
process, a reused pid or a migrated VM is a new entity. Values printed by a tool are not touched.
"""

from __future__ import annotations

from math import isnan

from acquisition.model.check_kind import CheckKind
from acquisition.model.codes import FIRST, VALID
from acquisition.model.metric import COUNTER, ResourceSet
from acquisition.wire.table import Entity
from probes.checks.check import Check, CheckSettings
from probes.sampling.reading import Reading


def build(resource_set: ResourceSet, settings: CheckSettings) -> Check:
    """The first-sample check. No parameters."""
    del settings
    width = len(resource_set.metrics)
    counters = [i for i, metric in enumerate(resource_set.metrics) if metric.kind == COUNTER]
    known: frozenset[int] = frozenset()
    before: list[Entity] | None = None

    def check(reading: Reading) -> None:
        nonlocal known, before
        if reading.entities is before:  # as long as no entity comes or goes, sources return the same list
            return
        present = [entity.id for entity in reading.entities]
        for row, key in enumerate(present):
            if key in known:
                continue
            for i in (row * width + column for column in counters):
                if reading.codes[i] == VALID and isnan(reading.values[i]):
                    reading.codes[i] = FIRST
        before, known = reading.entities, frozenset(present)

    return check


CHECK = CheckKind("First sample of an epoch, which has no rate yet: FIRST.", build)
