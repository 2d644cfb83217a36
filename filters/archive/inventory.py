"""Which entities one resource set of one host has, and what its source provides of them (pure).

Told in minutes, as they are closed. An entity appears with its first sample and has vanished when a minute of its set
has no sample of it. What a source has never given of an entity (MISSING from its first sample on, FIRST where it
appears) is inventory and no episode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.wire.table import Entity, Table
from filters.archive.values import EntityEpoch, Ids, Unprovided

_MOST_METRICS = 64


class Change(NamedTuple):
    """An entity that has appeared, or that has ``vanished`` at a time."""

    entity: int
    appeared: float
    seen: float
    vanished: float | None


class _Known:
    __slots__ = ("appeared", "provided", "seen")

    def __init__(self, appeared: float, seen: float, provided: int) -> None:
        self.appeared, self.seen, self.provided = appeared, seen, provided


class Inventory:
    """The entities of one resource set of one host that are there now."""

    def __init__(self, host: int, resource_set: int) -> None:
        self._host, self._set = host, resource_set
        self._entities: dict[int, _Known] = {}
        self._unprovided: set[str] = set()

    def provided(self, ids: Ids, metrics: int) -> npt.NDArray[np.bool_]:
        """bool (n, metrics): what the source had given of these entities before this minute."""
        known = [self._entities.get(key) for key in ids.tolist()]
        before = np.array([0 if one is None else one.provided for one in known], np.uint64)
        columns = np.arange(metrics, dtype=np.uint64) % np.uint64(_MOST_METRICS)
        given: npt.NDArray[np.bool_] = ((before[:, None] >> columns) & np.uint64(1)).astype(bool)
        return given

    def see(self, minute: float, ids: Ids, provided: npt.NDArray[np.bool_], whole: bool) -> list[Change]:
        """The entities of a minute; ``whole``: those that are not among them have vanished."""
        weights = np.uint64(1) << (np.arange(provided.shape[1], dtype=np.uint64) % np.uint64(_MOST_METRICS))
        masks = np.bitwise_or.reduce(np.where(provided, weights, np.uint64(0)), 1) if len(ids) else np.zeros(0, int)
        changes, there = [], set()
        for entity, mask in zip(ids.tolist(), masks.tolist(), strict=True):
            there.add(entity)
            one = self._entities.get(entity)
            if one is None:
                self._entities[entity] = _Known(minute, minute, mask)
                changes.append(Change(entity, minute, minute, None))
            else:
                one.seen, one.provided = max(one.seen, minute), mask
        for entity in [key for key in self._entities if key not in there] if whole else ():
            one = self._entities.pop(entity)
            changes.append(Change(entity, one.appeared, one.seen, one.seen + 60.0))
        return changes

    def never(self, metrics: Iterable[str], since: float) -> list[Unprovided]:
        """Metrics that a source does not provide, those that were told already left out."""
        fresh = [metric for metric in metrics if metric not in self._unprovided]
        self._unprovided.update(fresh)
        return [Unprovided(self._host, self._set, metric, since) for metric in fresh]

    def end(self) -> list[Change]:
        """All of them have vanished: the set is heard of no more."""
        gone = [Change(key, one.appeared, one.seen, one.seen + 60.0) for key, one in self._entities.items()]
        self._entities.clear()
        return gone

    def document(self) -> list[Any]:
        """As JSON can hold it, for ``restore``."""
        rows = [[entity, one.appeared, one.seen, one.provided] for entity, one in self._entities.items()]
        return [rows, sorted(self._unprovided)]

    def restore(self, document: list[Any]) -> None:
        """Go on from a ``document``."""
        rows, unprovided = document
        self._entities = {entity: _Known(appeared, seen, mask) for entity, appeared, seen, mask in rows}
        self._unprovided = set(unprovided)


def rows(host: int, resource_set: int, changes: Sequence[Change], table: Table | None) -> list[EntityEpoch]:
    """The rows of the changes; an entity that no table has named yet has no names."""
    named: dict[int, Entity] = {} if table is None else {one.id: one for one in table.entities}
    found = []
    for change in changes:
        one = named.get(change.entity, Entity(change.entity, "", "", "", ""))
        found.append(
            EntityEpoch(
                change.entity,
                host,
                resource_set,
                one.kind,
                one.stable,
                one.epoch,
                one.name,
                change.appeared,
                change.seen,
                change.vanished,
                labels=one.labels,
            )
        )
    return found
