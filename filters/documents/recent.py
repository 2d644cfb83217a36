"""Recent values of an entity: raw and smoothed, with validity, oldest first."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from acquisition.model import codes
from acquisition.model.inputs import RECENT_TICKS
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.recent import RecentTable
from filters.text.quantities import digits


class Series(Struct, frozen=True):
    """One metric, by columns of equal length. ``raw`` and ``mean`` are null where there is no value; ``validity``
    says whether the raw value counted; ``wall`` is when sampling ended, seconds since 1970."""

    unit: str
    tick: list[int]
    wall: list[float]
    raw: list[float | None]
    mean: list[float | None]
    validity: list[str]


class RecentAnswer(Struct, frozen=True):
    """The last ticks of an entity, at most ``ticks``; only metrics that the filter keeps recent values of."""

    tick: int
    now: float
    host: str
    host_id: str
    id: str
    name: str
    interval: float
    ticks: int
    metrics: dict[str, Series]


def recent_answer(
    snapshot: Snapshot, block: Block, row: int, table: RecentTable | None, metrics: Iterable[str]
) -> RecentAnswer:
    """Document of one row of a block; ``metrics``: candidates for recent values, in order."""
    entity = block.entities[row]
    units = {metric.name: metric.unit for metric in block.metrics}
    found = {} if table is None else {name: _series(table, entity.id, name, units.get(name, "")) for name in metrics}
    return RecentAnswer(
        block.tick,
        round(snapshot.now, 6),
        block.host,
        f"{block.host_id:016x}",
        f"{entity.id:016x}",
        entity.name,
        block.interval,
        RECENT_TICKS,
        {name: series for name, series in found.items() if series.tick},
    )


def _series(table: RecentTable, entity: int, metric: str, unit: str) -> Series:
    rows = table.series(entity, metric)
    return Series(
        unit,
        [row.tick for row in rows],
        [round(row.wall, 3) for row in rows],
        [digits(row.raw) for row in rows],
        [digits(row.smoothed) for row in rows],
        [codes.name_of(row.code) for row in rows],
    )
