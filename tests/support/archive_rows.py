"""Archive batches of random figures, and the contents of the tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from filters.archive.database.engine import make_engine, parse_url
from filters.archive.minutes.values import (
    Advance,
    Batch,
    Episode,
    Floats,
    MetricDefinition,
    MinuteMatrix,
    Position,
    Series,
    Statistic,
)

HOUR_BEGAN = 1_700_000_000 // 3600 * 3600
BIG = (1 << 64) - 3  #: an id that needs all bits
SERIES = Series(BIG, 7, BIG - 1, 0xFFFFFFFF)


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    """What a query answers, as the driver has it."""
    engine = make_engine(parse_url(url))
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.exec_driver_sql(statement)]
    engine.dispose()
    return found


def rollup(samples: Floats, late_percentile: float = math.nan) -> Floats:
    """The statistics of samples, ticks x entities x metrics: the slow definition."""
    made = np.full((len(Statistic), *samples.shape[1:]), np.nan, np.float32)
    for place in np.ndindex(*samples.shape[1:]):
        column = samples[(slice(None), *place)].astype(np.float64)
        valid = column[~np.isnan(column)]
        figures = [len(column), len(valid), *([math.nan] * 5), late_percentile]
        if len(valid):
            figures[2:7] = [valid.mean(), valid.std(), valid.min(), valid.max(), valid[-1]]
        made[(slice(None), *place)] = figures
    return made


def matrix(
    minute: int, samples: Floats, ids: Sequence[int] = (BIG, 5), series: Series = SERIES, tick: int = 0, late: int = 0
) -> MinuteMatrix:
    """A minute of these samples."""
    order = np.argsort(np.array(ids, np.uint64))
    keys = np.array(ids, np.uint64)[order]
    return MinuteMatrix(series, minute, tick or minute, keys, rollup(samples)[:, order], late)


def definitions(series: Series = SERIES, width: int = 2) -> tuple[MetricDefinition, ...]:
    """The metrics of a schema."""
    return tuple(
        MetricDefinition(series.schema, n, "vms", f"figure_{n}", "ratio", "gauge", 0.0, math.inf, "")
        for n in range(width)
    )


def episode(number: int, start: float = HOUR_BEGAN + 0.5, samples: int = 3) -> Episode:
    """One of many: of host 1, by the entity."""
    return Episode(1, 7, BIG - number, "cpu_ratio", 3, start, start + samples, samples, False, ())


def batch(previous: int = 0, commit_id: int = BIG, partition: int = 3, **more: Any) -> Batch:
    """A batch of one partition."""
    held = (Position(BIG, 7, BIG - 1, 12),)
    return Batch((Advance(partition, previous, commit_id, "1-1", b"added", held),), **more)


def made_up(seed: int = 1, minutes: int = 60) -> Floats:
    """Samples: minutes x ticks x two entities x two metrics."""
    random = np.random.default_rng(seed)
    samples = random.normal(-5, 2, (minutes, 6, 2, 2)).astype(np.float32)
    samples[random.random(samples.shape) < 0.2] = np.nan
    samples[3:4, :, 0, 1] = np.nan
    return samples
