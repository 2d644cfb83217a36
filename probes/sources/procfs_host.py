"""Host source from /proc and /sys: all metrics of resource set ``host``."""

from __future__ import annotations

from array import array
from importlib import import_module

from acquisition.model.codes import MISSING, NAN
from acquisition.model.identity import entity_id
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.figures.agreed import PROCESSES
from probes.figures.host_figures import CpuFigures, MemoryFigures, PagingFigures
from probes.figures.host_table import HostTable
from probes.figures.network import NetworkFigures
from probes.figures.row import Figures, Row, cells, wanted
from probes.metrics import HOST_FIGURES
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sources import Polled, Request


def create(request: Request) -> HostSource:
    """See ``probes.sources``."""
    return HostSource(request.resource_set, request.facts)


def host_entity(facts: HostFacts) -> Entity:
    """The one row of the resource set ``host``: its epoch is the boot."""
    return Entity(entity_id("host", facts.name, facts.boot_id), "host", facts.name, facts.boot_id, facts.name)


def all_figures(facts: HostFacts) -> list[Figures]:
    """Every group of host figures."""
    return [
        CpuFigures(facts.proc, facts.hertz),
        MemoryFigures(facts.proc),
        PagingFigures(facts.proc, facts.page_size),
        NetworkFigures(facts.proc, facts.sys),
        *(import_module(name).create(facts) for name in HOST_FIGURES),
    ]


class HostSource(Polled):
    """Reads only the files needed for the selected metrics."""

    name = "procfs"

    def __init__(self, resource_set: ResourceSet, facts: HostFacts) -> None:
        self._set = resource_set
        self._places = {metric.name: place for place, metric in enumerate(resource_set.metrics)}
        self._facts = facts
        self._entities = [host_entity(facts)]
        self._figures = wanted(all_figures(facts), resource_set)
        self._table = None if PROCESSES is None else HostTable(self._figures, resource_set.metrics, facts)
        self._last = 0.0

    def sample(self, wall: float, monotonic: float) -> Reading:
        """See ``Source``."""
        seconds = monotonic - self._last if self._last else 0.0
        self._last = monotonic
        values, codes = self._read(seconds) if self._table is None else self._read_together(self._table, seconds)
        facts = self._facts
        return Reading(
            self._set, self._entities, values, codes, wall, monotonic, seconds, facts.cores, facts.memory_bytes
        )

    def _read(self, seconds: float) -> tuple[array[float], bytearray]:
        row: Row = {}
        for figures in self._figures:
            figures.read(seconds, row)
        return cells(row, self._set.metrics)

    def _read_together(self, table: HostTable, seconds: float) -> tuple[array[float], bytearray]:
        values, codes = table.read(seconds)
        rest = table.rest(codes)
        if rest:
            row: Row = {}
            for figures in rest:
                figures.read(seconds, row)
            for name in (name for figures in rest for name in figures.metrics if name in self._places):
                place = self._places[name]
                values[place], codes[place] = row.get(name, (NAN, MISSING))
        return values, codes

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        return {}

    def close(self) -> None:
        """See ``Source``."""
        for figures in self._figures:
            figures.close()
