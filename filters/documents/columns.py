"""Columnar snapshot: one block per resource set of a host, one matrix per figure.

With a row per sample, each number would repeat host, entity and metric; a matrix names them once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType

from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.vms.evidence import VM
from acquisition.snapshot.vms.placement import Placements
from acquisition.wire.table import Entity
from filters.documents.chosen import Chosen, Page, by_host
from filters.documents.figures import DESCRIBED, FIGURES, Lists, gathered, planes_of, shortened
from filters.documents.sets import CAUSE

Numbers = list[list[float | None]]


class MetricDocument(Struct, frozen=True):
    """One column."""

    name: str
    unit: str
    kind: str


class EntityName(Struct, frozen=True):
    """One row. While a VM is ``migrating`` several hosts report it: a sum leaves out its ``shadow`` rows, whose figures
    are not its load."""

    id: str
    kind: str
    name: str
    stable: str
    epoch: str
    shadow: bool
    migrating: bool


class BlockDocument(Struct, frozen=True):
    """One resource set of one host: ``mean[i][j]`` is of ``entities[i]`` and ``metrics[j]``, and so is
    each of ``extra``."""

    host: str
    host_id: str
    resource_set: str
    tick: int
    interval: float
    wall: float
    age_seconds: float | None
    state: str
    reason: str
    cause: Annotated[str, Meta(description=CAUSE)]
    since: float | None
    metrics: list[MetricDocument]
    entities: list[EntityName]
    mean: Numbers | UnsetType = UNSET
    deviation: Numbers | UnsetType = UNSET
    trend: Numbers | UnsetType = UNSET
    last: Numbers | UnsetType = UNSET
    validity: list[list[str]] | UnsetType = UNSET
    stale_seconds: Numbers | UnsetType = UNSET
    extra: Annotated[dict[str, Numbers], DESCRIBED] | UnsetType = UNSET


class SnapshotDocument(Struct, frozen=True):
    """One tick of all hosts. ``errors`` say what could not be read or seen, ``blind`` why no host at all can be,
    ``damaged`` counts records that are none. ``next`` is the name after which the next page begins, null where there is
    none; its tick may be a later one."""

    tick: int
    now: float
    reading: str
    errors: list[str]
    blind: str
    damaged: int
    next: str | None
    blocks: list[BlockDocument]


def snapshot_document(
    snapshot: Snapshot, tick: int, selection: Chosen, page: BlocksOfPage, figures: Collection[str]
) -> SnapshotDocument:
    """Selected rows and columns of the blocks of a page."""
    places = snapshot.placements
    blocks = [found for block in page.blocks if (found := _block(block, selection, figures, places)) is not None]
    return SnapshotDocument(
        tick,
        round(snapshot.now, 6),
        snapshot.reading,
        list(snapshot.errors),
        snapshot.blind,
        snapshot.damaged,
        page.next,
        blocks,
    )


class BlocksOfPage(NamedTuple):
    """Blocks of a page, and the host after which the next page begins."""

    blocks: list[Block]
    next: str | None


def chosen(snapshot: Snapshot, selection: Chosen, states: Collection[str], page: Page) -> BlocksOfPage:
    """Selected blocks in one of ``states`` (all, if empty), of the hosts of a page."""
    blocks = [
        block
        for block in snapshot.blocks
        if selection.takes_block(block.host, block.host_id, block.resource_set, block.set_id)
        and (not states or block.state in states)
    ]
    hosts, following = page.cut(by_host(blocks), lambda host: host[0].host)
    return BlocksOfPage([block for host in hosts for block in host], following)


def _block(block: Block, selection: Chosen, figures: Collection[str], places: Placements) -> BlockDocument | None:
    """None if rows or columns were requested and the block has none of them."""
    members = block.entities
    rows, columns = selection.rows_and_columns(block)
    if (selection.narrows_entities and not rows) or (selection.narrows_metrics and not columns):
        return None
    planes: dict[str, Any] = _planes(block, rows, columns, figures)
    return BlockDocument(
        block.host,
        f"{block.host_id:016x}",
        block.resource_set,
        block.tick,
        block.interval,
        round(block.wall, 6),
        shortened(block.age_seconds),
        block.state,
        block.reason,
        block.cause,
        block.since or None,
        [MetricDocument(*block.metrics[j][:3]) for j in columns],
        [_name(block, members[i], places) for i in rows],
        **gathered(planes),
    )


def _name(block: Block, entity: Entity, places: Placements) -> EntityName:
    vm = places.id_of(block.host_id, entity)
    contested = entity.kind == VM and vm in places.contested
    return EntityName(
        f"{entity.id:016x}",
        entity.kind,
        entity.name,
        vm,
        entity.epoch,
        contested and places.is_shadow(block.host_id, entity.id),
        contested and places.is_migrating(vm),
    )


def _planes(block: Block, rows: list[int], columns: list[int], figures: Collection[str]) -> dict[str, Lists]:
    if not rows or not columns:
        return {name: [] for name in FIGURES if name in figures}
    return planes_of(block, rows, columns, figures)
