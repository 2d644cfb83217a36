"""A check as a newcomer adds it: a host whose memory is used up to the last byte is not believed: INCONSISTENT."""

from __future__ import annotations

from acquisition.model.check_kind import CheckKind, Parameter
from acquisition.model.codes import INCONSISTENT, VALID
from acquisition.model.metric import ResourceSet
from probes.checks.check import Check, CheckSettings, column_of, nothing, setting
from probes.sampling.reading import Reading

_FEWEST = Parameter("fewest_bytes", 1, 0, 1 << 40, "free memory below this is not believed")


def build(resource_set: ResourceSet, settings: CheckSettings) -> Check:
    """The toy check: marks the free memory only."""
    fewest = setting(settings, _FEWEST)
    width, column = len(resource_set.metrics), column_of(resource_set, "memory_free_bytes")
    if column < 0:
        return nothing

    def check(reading: Reading) -> None:
        for i in range(column, len(reading.values), width):
            if reading.values[i] < fewest and reading.codes[i] == VALID:
                reading.codes[i] = INCONSISTENT

    return check


CHECK = CheckKind("Free memory that is less than can be: INCONSISTENT.", build, (_FEWEST,))
