"""Minute matrices into entity x hour, and the coarser levels from them; again where late frames came since."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, text

from filters.archive import chunks, records, writing
from filters.archive.binary import Row
from filters.archive.escape import signed
from filters.archive.merging import combine
from filters.archive.schema import rollups
from filters.archive.values import HOUR, MINUTE, Floats, MinuteMatrix, Series, Statistic

#: Cells (series x entities) that a transaction takes at least, and series at most.
_ENTITIES, _SERIES = 1000, 200
_KINDS = len(Statistic)


def hours(connection: Connection, cluster: int, before: int) -> list[int]:
    """The hours with minutes that have not been taken, the oldest first; those that begin before a time."""
    found = connection.execute(
        text("SELECT DISTINCT minute - minute % 3600 FROM minutes WHERE cluster = :cluster AND minute < :before"),
        {"cluster": cluster, "before": before},
    )
    return sorted(hour for (hour,) in found)


def compact(connection: Connection, cluster: int, hour: int) -> int:
    """Take some series of an hour; how many minutes of them. 0: there is nothing left of this hour."""
    within = f"cluster = {cluster} AND minute >= {hour} AND minute < {hour + HOUR}"
    found = connection.exec_driver_sql(
        f"SELECT DISTINCT host, resource_set, epoch, schema FROM minutes WHERE {within}"
        f" ORDER BY host, resource_set, epoch, schema LIMIT {_SERIES}"  # the same order everywhere: no circle of locks
    ).fetchall()
    taken = 0
    made: dict[str, list[Row]] = {table.name: [] for table in rollups.values()}
    entities = 0
    for one in found:
        same = " AND ".join(f"{name} = {value}" for name, value in zip(Series._fields, one, strict=True))
        minutes = [records.minute_of(row) for row in writing.take(connection, "minutes", f"{within} AND {same}")]
        if not minutes:
            continue  # of another archiver meanwhile
        hour_of_set = _known(connection, cluster, hour, minutes)
        for name, rows in _rows(hour_of_set, cluster, hour):
            made[name] += rows
        taken += len(minutes)
        entities += len(hour_of_set.ids)
        if entities > _ENTITIES:
            break
    for name, all_rows in made.items():
        writing.insert(connection, name, all_rows)
    return taken


class _Hour(NamedTuple):
    series: Series
    ids: npt.NDArray[np.uint64]
    values: Floats  #: slots x statistics x entities x metrics


def _known(connection: Connection, cluster: int, hour: int, minutes: list[MinuteMatrix]) -> _Hour:
    """The minutes, together with what was taken before of the same entities, which leaves its tables."""
    series = minutes[0].series
    ids = np.unique(np.concatenate([one.ids for one in minutes]))
    values = np.full((HOUR // MINUTE, _KINDS, len(ids), minutes[0].values.shape[2]), np.nan, np.float32)
    keys = ", ".join(str(signed(int(key))) for key in ids)
    of_these = f"cluster = {cluster} AND entity IN ({keys}) AND began = {hour}" + "".join(
        f" AND {name} = {signed(value)}" for name, value in series._asdict().items()
    )
    for level, table in rollups.items():
        for row in writing.take(connection, table.name, of_these):
            if level == MINUTE:
                place = np.searchsorted(ids, np.uint64(row[1] % (1 << 64)))
                values[:, :, place] = np.moveaxis(_figures(row), -1, 0)
    for one in sorted(minutes, key=lambda one: one.minute):
        slot, places = (one.minute - hour) // MINUTE, np.searchsorted(ids, one.ids)
        there = values[slot][:, places]
        values[slot][:, places] = one.values if np.isnan(there[Statistic.COUNT]).all() else _late(there, one.values)
    return _Hour(series, ids, values)


def _late(there: Floats, more: Floats) -> Floats:
    """What had been taken, with what came since: frames of an epoch come in order, so that is newer."""
    made = combine(np.stack([there, more]))
    made[Statistic.P95] = there[Statistic.P95]
    return made


def _figures(row: Row) -> Floats:
    """Statistics x metrics x slots of a row of rollups."""
    slots, offsets, steps, *codes = row[7:]
    offsets = offsets.reshape(_KINDS, -1)
    steps = np.zeros_like(offsets) if steps is None else steps.reshape(_KINDS, -1)
    plain = np.zeros(offsets.shape[1] * slots, np.int16)
    all_codes = np.stack([plain if one is None else one for one in codes]).reshape(_KINDS, -1, slots)
    return chunks.decode(offsets, steps, all_codes)


def _rows(hour: _Hour, cluster: int, began: int) -> Iterator[tuple[str, list[Row]]]:
    """The rows of every level, by table."""
    series = tuple(map(signed, hour.series))
    for level, table in rollups.items():
        width = level // MINUTE
        parts = hour.values.reshape(-1, width, *hour.values.shape[1:])
        values = hour.values if width == 1 else np.stack([combine(part) for part in parts])
        encoded = chunks.encode(np.moveaxis(values, (2, 1, 3, 0), (0, 1, 2, 3)))
        yield table.name, [
            (cluster, signed(int(key)), began, *series, len(values), encoded.offsets[n].ravel(),
             encoded.steps[n].ravel() if encoded.steps[n].any() else None,
             *(None if plain else codes.ravel()
               for plain, codes in zip(encoded.plain[n], encoded.codes[n], strict=True)))
            for n, key in enumerate(hour.ids)
        ]  # fmt: skip
