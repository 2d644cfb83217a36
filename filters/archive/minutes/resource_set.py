"""Resource set of one host in the archive, between two commits (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from acquisition.model.metric import resource_set_id
from acquisition.wire.archived import Archived
from acquisition.wire.table import Table, merge
from filters.archive.minutes import inventory
from filters.archive.minutes.episodes import Episodes
from filters.archive.minutes.inventory import Change, Inventory
from filters.archive.minutes.minute import Minute
from filters.archive.minutes.numbers import Numbers, Span
from filters.archive.minutes.values import EntityEpoch, Event, MetricDefinition, Series


class ResourceSet:
    """``numbers`` by epoch; open ``minutes`` by series and minute, late ones under ``late``."""

    def __init__(self, host: int, resource_set: int) -> None:
        self.host, self.resource_set = host, resource_set
        self.numbers: dict[int, Numbers] = {}
        self.heard: dict[int, int] = {}  #: by epoch, milliseconds of the newest entry
        self.minutes: dict[tuple[Series, int], Minute] = {}
        self.late: dict[tuple[Series, int], Minute] = {}
        self.episodes = Episodes(host, resource_set)
        self.inventory = Inventory(host, resource_set)
        self.table: Table | None = None
        self.defined: set[int] = set()  #: schemas with metrics already written
        self.archived = 0  #: samples, of all epochs
        self.gap = self.made = 0  #: samples never to arrive, and made samples, of forgotten epochs
        self.unwritten = 0  #: samples of closed minutes not known to be durable
        self._unnamed: dict[int, Change] = {}

    @property
    def key(self) -> tuple[int, int]:
        """Host and resource set."""
        return self.host, self.resource_set

    @property
    def open_samples(self) -> int:
        """Samples only in memory."""
        return sum(minute.rollup.samples for held in (self.minutes, self.late) for minute in held.values())

    @property
    def newest(self) -> int:
        """Time of its newest entry, milliseconds."""
        return max(self.heard.values(), default=0)

    @property
    def is_durable(self) -> bool:
        """Whether none of its data is only in memory."""
        return not (self.minutes or self.late or self.unwritten)

    @property
    def books(self) -> Archived:
        """Account of all samples made since the first frame seen."""
        epoch = max(self.heard, key=self.heard.__getitem__, default=0)
        known = self.numbers.values()
        return Archived(
            self.host, self.resource_set, epoch, max(0, self.numbers[epoch].made) if epoch in self.numbers else 0,
            self.made + sum([one.made - one.began for one in known]), self.archived - self.unwritten,
            self.gap + sum([one.gap for one in known]),
            self.open_samples + self.unwritten + sum([one.waiting for one in known]),
        )  # fmt: skip

    def forget(self, before: int) -> list[int]:
        """Forget the epochs that have not reported since ``before``, milliseconds; returns them."""
        gone = [epoch for epoch, heard in self.heard.items() if heard < before]
        for epoch in gone:
            known = self.numbers.pop(epoch)
            self.gap += known.gap + known.waiting
            self.made += known.made - known.began
            del self.heard[epoch]
        return gone

    def spans(self, epoch: int) -> list[Span]:
        """Frames of an epoch that are only in memory."""
        return [span for (series, _), minute in self.minutes.items() if series.epoch == epoch for span in minute.spans]

    def learn(self, table: Table) -> None:
        """Learn a table from the stream, or the one kept by the filter."""
        self.table = merge(self.table, table)

    def names(self, columns: int) -> tuple[str, ...]:
        """Metrics by column; a column without a name in any table gets its place as the name."""
        known = () if self.table is None else tuple(metric.name for metric in self.table.metrics)
        return known if len(known) == columns else tuple(f"column {place}" for place in range(columns))

    def percentiles(self, columns: int, patterns: Sequence[str]) -> Sequence[int]:
        """Columns of metrics that match a pattern SET.METRIC; all columns until a table names them."""
        parts = [pattern.partition(".") for pattern in patterns]
        here = [metric for name, _, metric in parts if name == "*" or resource_set_id(name) == self.resource_set]
        if not here or self.table is None:
            return range(columns if here else 0)
        return [n for n, name in enumerate(self.names(columns)) if any(fnmatchcase(name, metric) for metric in here)]

    def definitions(self, schema: int) -> list[MetricDefinition]:
        """Column definitions of a schema, once."""
        table = self.table
        if table is None or schema in self.defined:
            return []
        self.defined.add(schema)
        return [
            MetricDefinition(
                schema, place, table.resource_set, one.name, one.unit, one.kind, one.low, one.high, one.help
            )
            for place, one in enumerate(table.metrics)
        ]

    def changed(self, changes: list[Change]) -> list[EntityEpoch]:
        """Rows of entities that came or went, and of those named since they came."""
        if not changes and not self._unnamed:
            return []
        named = set() if self.table is None else {entity.id for entity in self.table.entities}
        older = [change for entity, change in self._unnamed.items() if entity in named]
        for change in older:
            del self._unnamed[change.entity]
        self._unnamed.update((change.entity, change) for change in changes if change.entity not in named)
        for change in changes:
            if change.vanished is not None:
                self._unnamed.pop(change.entity, None)
        return inventory.rows(self.host, self.resource_set, [*older, *changes], self.table)

    def gap_event(self, epoch: int, hole: Span, now: int, reason: str) -> Event:
        """Event for frames of a hole that will never be in the archive."""
        details = {"resource_set": self.resource_set, "epoch": str(epoch), "samples": hole.samples, "reason": reason}
        frames = {"frames": hole.high - hole.low + 1, "first": hole.low}
        return Event(now / 1000.0, "gap", self.host, None, {**details, **frames})

    def document(self) -> list[Any]:
        """For ``restore``: the state that is durable with this commit."""
        numbers = {
            epoch: [self.heard[epoch], known.without(self.spans(epoch)).document()]
            for epoch, known in self.numbers.items()
        }
        told = self.episodes.document(), self.inventory.document()
        return [self.host, self.resource_set, numbers, self.archived, self.gap, self.made, *told]

    def restore(self, document: list[Any]) -> None:
        """Continue from a ``document``."""
        _, _, found, self.archived, self.gap, self.made, episodes, entities = document
        for epoch, (heard, known) in found.items():
            self.heard[epoch], self.numbers[epoch] = heard, Numbers.restore(known)
        self.episodes.restore(episodes)
        self.inventory.restore(entities)
