"""A source of processes as a newcomer adds it: CPU time and names from a file of lines ``PID NAME CORES``."""

from __future__ import annotations

import os
from array import array

from acquisition.model.codes import MISSING, NAN, VALID
from acquisition.model.identity import entity_id
from acquisition.wire.table import Entity
from probes.sampling.reading import Reading
from probes.sources import Polled, Request


def create(request: Request) -> ToySource:
    """See ``probes.sources``."""
    return ToySource(request, os.environ["TOY_PROCESSES"])


class ToySource(Polled):
    """All lines of the file, at every tick."""

    name = "toy"

    def __init__(self, request: Request, path: str) -> None:
        self._request = request
        self._path = path
        self._entities: list[Entity] = []

    def sample(self, wall: float, monotonic: float) -> Reading:
        """See ``Source``."""
        with open(self._path) as file:
            lines = [line.split() for line in file]
        host = self._request.facts.name
        entities, values, codes = [], array("d"), bytearray()
        for pid, name, cores in lines:
            stable = f"{host}:{pid}"
            entities.append(Entity(entity_id("process", stable, "toy"), "process", stable, "toy", name, {"pid": pid}))
            for metric in self._request.resource_set.metrics:
                is_known = metric.name == "cpu_ratio"
                values.append(float(cores) if is_known else NAN)
                codes.append(VALID if is_known else MISSING)
        if entities != self._entities:
            self._entities = entities
        return Reading(self._request.resource_set, self._entities, values, codes, wall, monotonic, 1.0)

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        return {}

    def close(self) -> None:
        """See ``Source``."""
