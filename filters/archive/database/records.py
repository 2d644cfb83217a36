"""Records of the archive as tuples in column order, with SQL's types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from acquisition.model.identity import identity
from acquisition.model.metric import resource_set_id
from filters.archive.database.binary import Row
from filters.archive.database.schema import dumps
from filters.archive.minutes.escape import escape, signed, text_hash
from filters.archive.minutes.values import DAY, Batch, Copy, MinuteMatrix, Series, Statistic


def tables(batch: Batch, cluster: int) -> Iterator[tuple[str, Iterable[Row]]]:
    """Rows that a batch upserts, table by table, except its minutes. ``cluster`` is signed."""
    yield "positions", [
        (cluster, signed(host), resource_set, signed(epoch), advance.partition, sequence)
        for advance in batch.advances for host, resource_set, epoch, sequence in advance.positions
    ]  # fmt: skip
    yield "metrics", [
        (m.schema, m.place, resource_set_id(m.resource_set), *map(escape, (m.resource_set, m.name, m.unit, m.kind)),
         _bound(m.low), _bound(m.high), escape(m.help)) for m in batch.metrics
    ]  # fmt: skip
    yield "hosts", [(cluster, signed(h.host), escape(h.name), text_hash(h.name), h.first, h.seen) for h in batch.hosts]
    yield "entities", [
        (cluster, signed(e.entity), signed(e.host), e.resource_set, escape(e.kind), escape(e.stable),
         text_hash(e.stable), escape(e.epoch), escape(e.name), e.appeared, e.seen, e.vanished,
         None if e.moved_from is None else signed(e.moved_from), dumps(dict(e.labels))) for e in batch.entities
    ]  # fmt: skip
    yield (
        "entity_names",
        [(cluster, signed(e.entity), text_hash(e.name), escape(e.name), e.appeared) for e in batch.entities],
    )
    yield (
        "unprovided",
        [
            (cluster, signed(u.host), u.resource_set, text_hash(u.metric), escape(u.metric), u.since)
            for u in batch.unprovided
        ],
    )
    yield "runs", [(escape(r.name), r.started, escape(r.command), r.ended, dumps(dict(r.figures))) for r in batch.runs]
    yield "events", [
        (day_of(e.time), cluster, signed(identity("event", repr(e.time), escape(e.kind), repr(e.host), repr(e.entity),
         details)), e.time, escape(e.kind), _optional(e.host), _optional(e.entity), details)
        for e in batch.events for details in (dumps(dict(e.details)),)
    ]  # fmt: skip
    hashes: dict[str, tuple[int, str]] = {}
    yield "episodes", [
        (signed(e.host), signed(e.entity), e.start, metric[0], e.code, e.resource_set, cluster, day_of(e.start),
         metric[1], e.end, e.samples, e.open, _copies(e.copies))
        for e in batch.episodes
        for metric in (hashes.get(e.metric) or hashes.setdefault(e.metric, (text_hash(e.metric), escape(e.metric))),)
    ]  # fmt: skip


def day_of(moment: float) -> int:
    """Start of the UTC day of a moment."""
    return int(moment // DAY) * DAY


def minute_row(one: MinuteMatrix, cluster: int) -> Row:
    """Row of a minute; a percentile that was not requested is NULL."""
    planes: list[object] = [plane.ravel() for plane in np.ascontiguousarray(one.values, np.float32)]
    if np.isnan(one.values[Statistic.P95]).all():
        planes[Statistic.P95] = None
    series = one.series
    return (
        cluster, one.minute, signed(series.host), series.resource_set, signed(series.epoch), series.schema, one.tick,
        one.late, np.ascontiguousarray(one.ids, np.uint64).view(np.int64), *planes, one.passed_on, one.sketch,
    )  # fmt: skip


def minute_of(row: Row) -> MinuteMatrix:
    """Matrix of a row from ``minute_row``."""
    _, minute, host, resource_set, epoch, schema, tick, late, ids, *planes, passed_on, sketch = row
    width = planes[0].size // max(len(ids), 1)
    absent = np.full(planes[0].size, np.nan, np.float32)
    values = np.stack([absent if plane is None else plane for plane in planes]).reshape(len(planes), len(ids), width)
    series = Series(host % (1 << 64), resource_set, epoch % (1 << 64), schema)
    return MinuteMatrix(series, minute, tick, ids.view(np.uint64), values, late, bool(passed_on), sketch)


def key_of(one: MinuteMatrix) -> tuple[int, ...]:
    """Key of a minute in SQL, without the cluster."""
    series = one.series
    return one.minute, signed(series.host), series.resource_set, signed(series.epoch), series.schema


def _bound(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _optional(number: int | None) -> int | None:
    return None if number is None else signed(number)


def _copies(copies: tuple[Copy, ...]) -> str:
    """``[[time, value], …]``; non-finite values are words, since JSON has no numbers for them."""
    parts = [f"[{time!r}, {value!r}]" if math.isfinite(value) else f'[{time!r}, "{value!r}"]' for time, value in copies]
    return f"[{', '.join(parts)}]"
