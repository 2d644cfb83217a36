"""Base of sources for host parts: a row of figures per part, by name."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from acquisition.model.identity import entity_id
from acquisition.wire.table import Entity
from probes.checks.rate import growth
from probes.figures.host_figures import SHARES, shares
from probes.figures.row import Row, cells, first
from probes.sampling.reading import Reading
from probes.sources import Polled, Request


class PartSource(Polled):
    """Base of sources with ``kind`` and ``rows``. The epoch of a part is the boot of its host."""

    name = "procfs"
    kind: str

    def __init__(self, request: Request) -> None:
        self._set = request.resource_set
        self._facts = request.facts
        self._entities: list[Entity] = []
        self._last = 0.0

    def rows(self, seconds: float) -> Mapping[str, Row]:
        """Figures of each part by its name; ``seconds`` as for ``Figures``. Raises OSError."""
        raise NotImplementedError

    def sample(self, wall: float, monotonic: float) -> Reading:
        """See ``Source``."""
        seconds = monotonic - self._last if self._last else 0.0
        self._last = monotonic
        rows = self.rows(seconds)
        if list(rows) != [entity.name for entity in self._entities]:
            self._entities = [self._entity(name) for name in rows]
        values, codes = array("d"), bytearray()
        for row in rows.values():
            own, marks = cells(row, self._set.metrics)
            values += own
            codes += marks
        facts = self._facts
        return Reading(
            self._set, self._entities, values, codes, wall, monotonic, seconds, facts.cores, facts.memory_bytes
        )

    def _entity(self, name: str) -> Entity:
        stable, epoch = f"{self._facts.name}:{name}", self._facts.boot_id
        return Entity(entity_id(self.kind, stable, epoch), self.kind, stable, epoch, name)

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        return {}


class CpuShares:
    """Shares of the CPU time of groups of cores between two readings."""

    def __init__(self, hertz: int) -> None:
        self._hertz = hertz
        self._old: dict[str, list[Sequence[int]]] = {}

    def rows(self, groups: Mapping[str, list[Sequence[int]]], seconds: float) -> dict[str, Row]:
        """By group, with these ticks of its cores (``host_figures.cpu_ticks``). FIRST if the number of its cores has
        changed."""
        old, self._old = self._old, dict(groups)
        return {name: self._row(cores, old.get(name, []), seconds) for name, cores in groups.items()}

    def _row(self, new: list[Sequence[int]], old: list[Sequence[int]], seconds: float) -> Row:
        row: Row = {}
        if len(new) != len(old) or not new:
            first(SHARES if new else (), row)
            return row
        most = len(new) * self._hertz * growth(seconds)
        found = shares(_sums(new), _sums(old), most, len(new) * self._hertz * seconds)
        row.update(zip(SHARES, found, strict=True))
        return row


def _sums(cores: list[Sequence[int]]) -> list[int]:
    return [sum(kind) for kind in zip(*cores, strict=True)]
