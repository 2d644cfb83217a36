"""Inventory of one resource set of one host: entities and columns (pure).

Updated in closed minutes. An entity appears with its first sample and has vanished when a minute of its set
has no sample of it. A metric that a source has never provided for an entity (MISSING from its first sample on, FIRST
when it appears) belongs to the inventory and is not an episode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.wire.table import Entity, Table
from filters.archive.minutes.escape import escape, unescape
from filters.archive.minutes.values import EntityEpoch, Ids, Unprovided

_MOST_METRICS = 64


class Change(NamedTuple):
    """An entity that has appeared, or ``vanished`` at a time."""

    entity: int
    appeared: float
    seen: float
    vanished: float | None


#: Of an entity: when it appeared and was last seen, minutes since 1970, and a bit per metric that was provided.
_KNOWN = np.dtype([("id", "<u8"), ("appeared", "<u4"), ("seen", "<u4"), ("provided", "<u8")])


class Inventory:
    """Current entities of one resource set of one host."""

    def __init__(self, host: int, resource_set: int) -> None:
        self._host, self._set = host, resource_set
        self._known = np.zeros(0, _KNOWN)  #: sorted by id
        self._unprovided: set[str] = set()

    def provided(self, ids: Ids, metrics: int) -> npt.NDArray[np.bool_]:
        """bool (n, metrics): metrics provided by the source for these entities before this minute."""
        places, found = self._find(ids)
        before = np.zeros(len(ids), np.uint64)
        before[found] = self._known["provided"][places[found]]
        columns = np.arange(metrics, dtype=np.uint64) % np.uint64(_MOST_METRICS)
        given: npt.NDArray[np.bool_] = ((before[:, None] >> columns) & np.uint64(1)).astype(bool)
        return given

    def see(self, minute: float, ids: Ids, provided: npt.NDArray[np.bool_], whole: bool) -> list[Change]:
        """Record the entities of a minute; ``whole``: entities not among them have vanished."""
        weights = np.uint64(1) << (np.arange(provided.shape[1], dtype=np.uint64) % np.uint64(_MOST_METRICS))
        masks = np.bitwise_or.reduce(np.where(provided, weights, np.uint64(0)), 1)
        places, found = self._find(ids)
        known, there = self._known, places[found]
        known["provided"][there] = masks[found]
        known["seen"][there] = np.maximum(known["seen"][there], minute // 60)
        changes = [Change(entity, minute, minute, None) for entity in ids[~found].tolist()]
        if whole and len(there) < len(known):
            gone = np.ones(len(known), bool)
            gone[there] = False
            changes += self._leave(gone)
        if len(there) < len(ids):
            fresh = np.zeros(len(ids) - len(there), _KNOWN)
            fresh["id"], fresh["provided"] = ids[~found], masks[~found]
            fresh["appeared"] = fresh["seen"] = minute // 60
            joined = np.concatenate([self._known, fresh])
            self._known = joined[np.argsort(joined["id"])]
        return changes

    def _find(self, ids: Ids) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Places of entities, and which of them are known; the place of an unknown one is meaningless."""
        places = np.searchsorted(self._known["id"], ids)
        if not len(self._known):
            return places, np.zeros(len(ids), bool)
        places = np.minimum(places, len(self._known) - 1)
        return places, self._known["id"][places] == ids

    def _leave(self, gone: npt.NDArray[np.bool_]) -> list[Change]:
        """Remove entities as vanished, a minute after they were last seen."""
        leaving, self._known = self._known[gone], self._known[~gone]
        return [
            Change(entity, appeared * 60, seen * 60, seen * 60 + 60.0) for entity, appeared, seen, _ in leaving.tolist()
        ]

    def never(self, metrics: Iterable[str], since: float) -> list[Unprovided]:
        """Metrics that a source does not provide, without those already reported."""
        fresh = [metric for metric in metrics if metric not in self._unprovided]
        self._unprovided.update(fresh)
        return [Unprovided(self._host, self._set, metric, since) for metric in fresh]

    def end(self) -> list[Change]:
        """All entities have vanished: the set no longer reports."""
        return self._leave(np.ones(len(self._known), bool))

    def document(self) -> list[Any]:
        """For ``restore``: the entities as bytes, and the metrics not provided."""
        return [self._known.tobytes(), sorted(map(escape, self._unprovided))]

    def restore(self, document: list[Any]) -> None:
        """Continue from a ``document``."""
        known, unprovided = document
        self._known = np.frombuffer(known, _KNOWN).copy()
        self._unprovided = set(map(unescape, unprovided))


def rows(host: int, resource_set: int, changes: Sequence[Change], table: Table | None) -> list[EntityEpoch]:
    """Rows of the changes; an entity not named in any table yet has no names."""
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
