"""A source of virtual machines as a newcomer adds it, from a file of lines ``UUID NAME CORES VCPUS``."""

from __future__ import annotations

import os

from acquisition.model.codes import MISSING, NAN, VALID
from acquisition.model.identity import entity_id
from acquisition.wire.table import Entity
from probes.reading import Reading
from probes.sources import Request
from probes.sources.polled import Polled


def create(request: Request) -> ToyVmSource:
    """See ``probes.sources``."""
    return ToyVmSource(request, os.environ["TOY_VMS"])


class ToyVmSource(Polled):
    """All lines of the file, at every tick."""

    name = "toy"

    def __init__(self, request: Request, path: str) -> None:
        self._request = request
        self._path = path

    def sample(self, wall: float, monotonic: float) -> Reading:
        """See ``Source``."""
        with open(self._path) as file:
            lines = [line.split() for line in file]
        entities, values, codes = [], [], bytearray()
        for uuid, name, cores, vcpus in lines:
            labels = {"uuid": uuid, "host": self._request.facts.name}
            entities.append(Entity(entity_id("vm", uuid, "toy"), "vm", uuid, "toy", name, labels))
            known = {"cpu_ratio": float(cores), "vcpu_count": float(vcpus)}
            for metric in self._request.resource_set.metrics:
                values.append(known.get(metric.name, NAN))
                codes.append(VALID if metric.name in known else MISSING)
        return Reading(self._request.resource_set, entities, values, codes, wall, monotonic, 1.0)

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        return {}

    def close(self) -> None:
        """See ``Source``."""
