"""Compaction of minutes into 5 minutes and hours, then into rows per entity.

A row per entity holds several hours.

Everything is additive: late values form another matrix, which is merged into the existing row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, text

from filters.archive.database import matrices, records, writing
from filters.archive.database.binary import Row
from filters.archive.database.schema import matrices as matrix_tables
from filters.archive.database.schema import rollups
from filters.archive.minutes.escape import signed
from filters.archive.minutes.merging import combine
from filters.archive.minutes.values import DAY, HOUR, MINUTE, Floats, MinuteMatrix, Series, Statistic

# -- An entity's figures of an hour or more as small integers: code x step + offset. Pure.
#
# A code has 16 bits; -32768 means no figure. ``offset`` is the middle between the lowest and the highest figure of
# the chunk and ``step`` 1/65534 of their distance, so the error of a figure is at most half a step: 1/131,068 of the
# range of the chunk's figures (plus the rounding of float32). Counts have step 1 and are exact. If all figures of a
# statistic are equal, or there are none, no codes are kept.

NONE = -32768
_MOST = 32767
_SMALLEST, _LARGEST = np.float32(1e-45), float(np.finfo(np.float32).max)


class Chunks(NamedTuple):
    """Chunks of entities: ``offsets`` and ``steps`` are entities x statistics x metrics, ``codes`` the same x slots;
    ``plain`` is entities x statistics, true if no codes are needed."""

    offsets: Floats
    steps: Floats
    codes: npt.NDArray[np.int16]
    plain: npt.NDArray[np.bool_]


def encode(values: Floats) -> Chunks:
    """Chunks of entities x statistics x metrics x slots; non-finite values count as missing."""
    there = np.isfinite(values)
    low = np.where(there, values, np.inf).min(-1).astype(np.float64)
    high = np.where(there, values, -np.inf).max(-1).astype(np.float64)
    none = ~there.any(-1)
    low[none] = high[none] = np.nan
    offsets = ((low + high) / 2).astype(np.float32)
    offsets[:, : Statistic.MEAN] = np.floor(offsets[:, : Statistic.MEAN])  # counts
    reach = np.maximum(high - offsets, offsets - low)
    steps = np.where(reach > 0, np.maximum((reach / _MOST).astype(np.float32), _SMALLEST), np.float32(0))
    counts = steps[:, : Statistic.MEAN]
    counts[(counts > 0) & (counts < 1)] = 1
    with np.errstate(invalid="ignore", divide="ignore"):
        codes = np.rint((values - offsets[..., None].astype(np.float64)) / steps[..., None])
    codes = np.where(steps[..., None] > 0, np.clip(codes, -_MOST, _MOST), 0)
    plain = (none | (there.all(-1) & (steps == 0))).all(-1)
    return Chunks(offsets, steps, np.where(there, codes, NONE).astype(np.int16), plain)


def decode(offsets: Floats, steps: Floats, codes: npt.NDArray[np.int16]) -> Floats:
    """Figures of one entity, statistics x metrics x slots; ``codes`` of plain statistics are 0."""
    figures = codes * steps[..., None].astype(np.float64) + offsets[..., None]
    return np.where(codes == NONE, np.nan, np.clip(figures, -_LARGEST, _LARGEST)).astype(np.float32)


#: Minimum of cells (series x entities) per transaction, and maximum of series.
_ENTITIES, _SERIES = 1000, 200
_KINDS = len(Statistic)


class Stage(NamedTuple):
    """Step of compaction: values in the matrices of a ``level`` become rows of ``width`` seconds, ``rest`` seconds
    after their end."""

    level: int
    width: int
    rest: int


def stages(chunk_hours: int) -> tuple[Stage, ...]:
    """All stages; the coarser levels come after the last minutes of their day."""
    return Stage(MINUTE, chunk_hours * HOUR, 2 * HOUR), *(Stage(level, DAY, 3 * HOUR) for level in matrices.COARSER)


def due(connection: Connection, cluster: int, stage: Stage, now: float) -> list[int]:
    """Start times of rows with matrices that have rested long enough, the oldest first."""
    table, width = matrix_tables[stage.level].name, stage.width
    found = connection.execute(
        text(f"SELECT DISTINCT minute - minute % {width} FROM {table} WHERE cluster = :cluster AND minute < :before"),
        {"cluster": cluster, "before": (int(now) - stage.rest) // width * width},
    )
    return sorted(began for (began,) in found)


def oldest_fresh(connection: Connection, cluster: int, before: int) -> int | None:
    """The oldest minute before a time that is not in the coarser levels yet."""
    found: int | None = connection.exec_driver_sql(
        f"SELECT min(minute) FROM minutes WHERE cluster = {cluster} AND minute < {before} AND NOT passed_on"
    ).scalar()
    return found


def pass_on(connection: Connection, cluster: int, before: int) -> int:
    """Add some series of the minutes before a time to the coarser levels, unless already there. Returns the number of
    minutes; 0: nothing is left."""
    matrices.lock(connection, cluster)
    fresh = f"cluster = {cluster} AND minute < {before} AND NOT passed_on"
    found = connection.exec_driver_sql(
        f"SELECT DISTINCT host, resource_set, epoch, schema FROM minutes WHERE {fresh} LIMIT {_SERIES}"
    ).fetchall()
    taken = []
    for one in found:
        same = " AND ".join(f"{name} = {value}" for name, value in zip(Series._fields, one, strict=True))
        statement = f"UPDATE minutes SET passed_on = true WHERE {fresh} AND {same} RETURNING *"
        taken.append([records.minute_of(row) for row in writing.returned(connection, "minutes", statement)])
        if sum(len(minute.ids) for parts in taken for minute in parts) > _ENTITIES * HOUR // MINUTE:
            break
    matrices.write_coarser(connection, cluster, taken)
    return sum(map(len, taken))


def compact(connection: Connection, cluster: int, stage: Stage, began: int) -> int:
    """Compact some series of a row's period. Returns the number of matrices; 0: nothing is left."""
    level, width, _ = stage
    matrices.lock(connection, cluster)
    within = f"cluster = {cluster} AND minute >= {began} AND minute < {began + width}"
    found = connection.exec_driver_sql(
        f"SELECT DISTINCT host, resource_set, epoch, schema FROM {matrix_tables[level].name} WHERE {within}"
        f" ORDER BY host, resource_set, epoch, schema LIMIT {_SERIES}"  # the same order everywhere: no deadlock
    ).fetchall()
    taken = entities = 0
    rows: list[Row] = []
    fresh: list[list[MinuteMatrix]] = []
    for one in found:
        same = " AND ".join(f"{name} = {value}" for name, value in zip(Series._fields, one, strict=True))
        parts = list(matrices.take(connection, level, f"{within} AND {same}"))
        if not parts:
            continue  # taken by another archiver meanwhile
        chunk = _known(connection, cluster, stage, began, parts)
        rows += _rows(chunk, cluster, began)
        fresh.append([one for one in parts if level == MINUTE and not one.passed_on])
        taken += len(parts)
        entities += len(chunk.ids)
        if entities > _ENTITIES:
            break
    writing.insert(connection, rollups[level].name, rows)
    matrices.write_coarser(connection, cluster, fresh)
    return taken


class _Chunk(NamedTuple):
    series: Series
    ids: npt.NDArray[np.uint64]
    values: Floats  #: slots x statistics x entities x metrics


def _known(connection: Connection, cluster: int, stage: Stage, began: int, parts: list[MinuteMatrix]) -> _Chunk:
    """Matrices merged with those compacted earlier for the same entities, which are removed from their table."""
    level, width, _ = stage
    series = parts[0].series
    ids = np.unique(np.concatenate([one.ids for one in parts]))
    keys = ", ".join(str(signed(int(key))) for key in ids)
    of_these = f"cluster = {cluster} AND entity IN ({keys}) AND began = {began}" + "".join(
        f" AND {name} = {signed(value)}" for name, value in series._asdict().items()
    )
    there_before = {row[1]: figures_of(row) for row in writing.take(connection, rollups[level].name, of_these)}
    slots = max(
        [width // level, *(figures.shape[2] for figures in there_before.values())]
    )  # earlier chunks may have been wider
    values = np.full((slots, _KINDS, len(ids), parts[0].values.shape[2]), np.nan, np.float32)
    for key, figures in there_before.items():
        values[: figures.shape[2], :, np.searchsorted(ids, np.uint64(key % (1 << 64)))] = np.moveaxis(figures, -1, 0)
    for one in sorted(parts, key=lambda one: one.minute):
        slot, places = (one.minute - began) // level, np.searchsorted(ids, one.ids)
        there = values[slot][:, places]
        untouched = np.isnan(there[Statistic.COUNT]).all()
        values[slot][:, places] = one.values if untouched else _late(there, one.values, level)
    return _Chunk(series, ids, values)


def _late(there: Floats, more: Floats, level: int) -> Floats:
    """Compacted values merged with late ones. Frames of an epoch arrive in order, so for a minute
    the late value is newer; for a longer period it may be from any minute, and the existing ``last`` is kept."""
    in_order = [there, more] if level == MINUTE else [more, there]
    made = combine(np.stack(in_order))
    first = np.isnan(there[Statistic.COUNT])
    made[Statistic.P95] = np.where(first, more[Statistic.P95], there[Statistic.P95])
    return made


def figures_of(row: Row) -> Floats:
    """Statistics x metrics x slots of a row of rollups."""
    slots, offsets, steps, *codes = row[7:]
    offsets = offsets.reshape(_KINDS, -1)
    steps = np.zeros_like(offsets) if steps is None else steps.reshape(_KINDS, -1)
    plain = np.zeros(offsets.shape[1] * slots, np.int16)
    all_codes = np.stack([plain if one is None else one for one in codes]).reshape(_KINDS, -1, slots)
    return decode(offsets, steps, all_codes)


def _rows(chunk: _Chunk, cluster: int, began: int) -> Iterator[Row]:
    series = tuple(map(signed, chunk.series))
    encoded = encode(np.moveaxis(chunk.values, (2, 1, 3, 0), (0, 1, 2, 3)))
    for n, key in enumerate(chunk.ids):
        codes = zip(encoded.plain[n], encoded.codes[n], strict=True)
        yield (
            cluster, signed(int(key)), began, *series, len(chunk.values), encoded.offsets[n].ravel(),
            None if encoded.plain[n].all() else encoded.steps[n].ravel(),
            *(None if plain else each.ravel() for plain, each in codes),
        )  # fmt: skip
