"""A source whose library blocks, as one of libvirt would: while the file says ``block``, a call never returns."""

from __future__ import annotations

import os
import time
from array import array

from acquisition.model.codes import MISSING, NAN, VALID
from acquisition.model.identity import entity_id
from acquisition.wire.table import Entity
from probes.sampling.reading import Reading
from probes.sources import Polled, Request


def create(request: Request) -> ToyBlockingSource:
    """See ``probes.sources``."""
    return ToyBlockingSource(request, os.environ["TOY_BLOCKING"])


def ask(path: str) -> list[list[str]]:
    """The library: what it knows, or no answer at all."""
    with open(path) as file:
        text = file.read()
    while text.startswith("block"):
        time.sleep(3600.0)
    if text.startswith("fail"):
        raise RuntimeError("the library has lost its connection")
    return [line.split() for line in text.splitlines()]


class ToyBlockingSource(Polled):
    """All lines of the file, at every tick: ``UUID NAME CORES VCPUS``."""

    name = "blocking"

    def __init__(self, request: Request, path: str) -> None:
        self._request = request
        self._path = path
        self._entities: list[Entity] = []

    def sample(self, wall: float, monotonic: float) -> Reading:
        """See ``Source``."""
        entities, values, codes = [], array("d"), bytearray()
        for uuid, name, cores, vcpus in ask(self._path):
            entities.append(Entity(entity_id("vm", uuid, "toy"), "vm", uuid, "toy", name, {"uuid": uuid}))
            known = {"cpu_ratio": float(cores), "vcpu_count": float(vcpus)}
            for metric in self._request.resource_set.metrics:
                values.append(known.get(metric.name, NAN))
                codes.append(VALID if metric.name in known else MISSING)
        if entities != self._entities:
            self._entities = entities
        return Reading(self._request.resource_set, self._entities, values, codes, wall, monotonic, 1.0)

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        return {}

    def close(self) -> None:
        """See ``Source``."""
