"""VM suffering of a host: total and worst, from the last VM reading.

MISSING if no VMs are read, or if that of one of them is unknown. A new one adds nothing yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from acquisition.model.codes import FIRST, MISSING, NAN, VALID
from probes.figures.row import Row
from probes.sampling.host_facts import HostFacts, Suffering
from probes.sampling.metric_kinds import cores

METRICS = (
    cores("vms_suffering_ratio", "total vcpu_suffering_ratio of its VMs"),
    cores("vms_worst_suffering_ratio", "highest vcpu_suffering_ratio of a VM"),
)
_TICKS = 2.5  #: validity of the last result


def create(facts: HostFacts) -> VmsSuffering:
    """See ``probes.metrics.HOST_FIGURES``."""
    return VmsSuffering(facts)


def summed(values: Sequence[float], codes: Sequence[int], interval: float) -> Suffering:
    """Sum and maximum of the suffering of all VMs, which are read once in ``interval`` seconds."""
    code = next((each for each in codes if each not in (VALID, FIRST)), VALID)
    known = [value for value, each in zip(values, codes, strict=True) if each == VALID]
    if code != VALID or (codes and not known):
        return Suffering(NAN, NAN, code or FIRST, _TICKS * interval)
    return Suffering(sum(known), max(known, default=0.0), VALID, _TICKS * interval)


class VmsSuffering:
    """See ``Figures``."""

    metrics = tuple(metric.name for metric in METRICS)

    def __init__(self, facts: HostFacts) -> None:
        self._facts = facts
        self._found: Suffering | None = None
        self._age = 0.0

    def read(self, seconds: float, row: Row) -> None:
        """See ``Figures``."""
        found, before = self._facts.suffering, self._found
        self._found = found
        self._age = self._age + seconds if found is before else 0.0
        if found is None or self._age > found.seconds:
            row.update((name, (NAN, MISSING)) for name in self.metrics)
            return
        row.update(zip(self.metrics, ((found.all, found.code), (found.worst, found.code)), strict=True))

    def close(self) -> None:
        """See ``Figures``."""
