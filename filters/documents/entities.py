"""Entities: processes and VMs with their figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.inputs import InputsTable
from acquisition.snapshot.vms.evidence import VM
from acquisition.wire.table import Entity
from filters.documents.chosen import Chosen
from filters.documents.figures import ReadingDocument, readings_of, shortened
from filters.documents.sets import CAUSE
from filters.text.owners import owner_id

#: The labels of an entity.
Labels = Callable[[Entity], Mapping[str, str]]


class EntityDocument(Struct, frozen=True):
    """One entity. ``stable`` survives a restart or a migration (uuid; HOST:PID), ``epoch`` does not; ``id``
    is the identity of both, ``owner_id`` what the owner of a VM calls it. While a VM is ``migrating`` several processes
    have it; the figures of a ``shadow`` are not its load, which is elsewhere."""

    id: str
    kind: str
    name: str
    stable: str
    epoch: str
    resource_set: str
    labels: dict[str, Any]
    shadow: bool
    migrating: bool
    owner_id: str
    readings: dict[str, ReadingDocument] | UnsetType = UNSET


class PlacementDocument(Struct, frozen=True):
    """Where a VM is: ``entity`` is the process that bears its load, on ``host``. While it is ``migrating`` it
    goes from ``source`` to ``destination``."""

    state: str
    host: str
    host_id: str
    entity: str
    source: str | None
    destination: str | None


class EntityAnswer(Struct, frozen=True):
    """One entity, where it is, and how old its figures are."""

    tick: int
    now: float
    reading: str
    host: str
    host_id: str
    state: str
    reason: str
    cause: Annotated[str, Meta(description=CAUSE)]
    since: float | None
    age_seconds: float | None
    interval: float
    entity: EntityDocument
    placement: PlacementDocument | None


def entity_answer(
    snapshot: Snapshot,
    block: Block,
    row: int,
    selection: Chosen,
    figures: Collection[str],
    table: InputsTable | None,
    labels: Labels,
) -> EntityAnswer:
    """One row of a block."""
    return EntityAnswer(
        block.tick,
        round(snapshot.now, 6),
        snapshot.reading,
        block.host,
        f"{block.host_id:016x}",
        block.state,
        block.reason,
        block.cause,
        block.since or None,
        shortened(block.age_seconds),
        block.interval,
        _documents(snapshot, block, [row], selection, figures, table, labels)[0],
        _placement(snapshot, block, row),
    )


def _placement(snapshot: Snapshot, block: Block, row: int) -> PlacementDocument | None:
    entity = block.entities[row]
    if entity.kind != VM:
        return None
    found = snapshot.placements.of_row(block, row)
    host, place = f"{found.host_id:016x}", f"{found.entity_id:016x}"
    return PlacementDocument(found.state, found.host, host, place, found.source, found.destination)


def entities_of(
    snapshot: Snapshot,
    block: Block,
    selection: Chosen,
    figures: Collection[str],
    table: InputsTable | None,
    labels: Labels,
) -> list[EntityDocument]:
    """Selected rows of a block; without readings if no figure is requested."""
    rows, _ = selection.rows_and_columns(block)
    return _documents(snapshot, block, rows, selection, figures, table, labels)


def _documents(
    snapshot: Snapshot,
    block: Block,
    rows: Sequence[int],
    selection: Chosen,
    figures: Collection[str],
    table: InputsTable | None,
    labels: Labels,
) -> list[EntityDocument]:
    columns = [column for column, metric in enumerate(block.metrics) if selection.takes_metric(metric.name)]
    readings: Sequence[dict[str, ReadingDocument] | UnsetType] = (
        readings_of(block, rows, columns, figures, table) if figures else [UNSET] * len(rows)
    )
    members, places = block.entities, snapshot.placements
    return [
        EntityDocument(
            f"{members[row].id:016x}",
            members[row].kind,
            members[row].name,
            places.id_of(block.host_id, members[row]),
            members[row].epoch,
            block.resource_set,
            dict(labels(members[row])),
            members[row].kind == VM and places.is_shadow(block.host_id, members[row].id),
            members[row].kind == VM and places.is_migrating(places.id_of(block.host_id, members[row])),
            owner_id(members[row].name, members[row].stable, members[row].labels) if members[row].kind == VM else "",
            values,
        )
        for row, values in zip(rows, readings, strict=True)
    ]


class EntityIndex:
    """Position of each entity of a snapshot, found in one sorted array: a million ids take half a millisecond."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        vectors = [block.ids for block in blocks]
        self._starts = np.cumsum([0, *map(len, vectors)])
        self._ids = np.concatenate(vectors) if vectors else np.empty(0, "<u8")

    def find(self, identity: int) -> tuple[Block, int] | None:
        """Block and row of an id, or None."""
        places = np.flatnonzero(self._ids == np.uint64(identity))
        if not len(places):
            return None
        number = int(np.searchsorted(self._starts, places[0], "right")) - 1
        return self._blocks[number], int(places[0] - self._starts[number])
