"""ORDER: time of a source stood still or went back.

Only the whole reading is marked: the next one is compared with it, so a clock that
steps back an hour costs one reading and not an hour of them.
"""

from __future__ import annotations

from acquisition.model.check_kind import CheckKind
from acquisition.model.codes import ORDER
from acquisition.model.metric import INFINITY, ResourceSet
from probes.checks.check import Check, CheckSettings, mark_all
from probes.sampling.reading import Reading


def build(resource_set: ResourceSet, settings: CheckSettings) -> Check:
    """The order check: wall clock and monotonic clock must both advance. No parameters."""
    del resource_set, settings
    wall = monotonic = -INFINITY

    def check(reading: Reading) -> None:
        nonlocal wall, monotonic
        if reading.wall <= wall or reading.monotonic <= monotonic:
            mark_all(reading, ORDER)
        wall, monotonic = reading.wall, reading.monotonic

    return check


CHECK = CheckKind("Time of a source that stood still or went back: ORDER.", build)
