"""Rollup writes of one resource set: minutes written, compacted, disk used."""

from __future__ import annotations

import argparse

import numpy as np
from sqlalchemy import text

from experiments.archive_cost.writer import BEGAN, Stopwatch, Writer
from filters.archive.database.engine import make_engine, parse_url
from filters.archive.database.matrices import COARSER
from filters.archive.database.schema import matrices, rollups
from filters.archive.database.store import Store
from filters.archive.minutes.sketch import of_values
from filters.archive.minutes.values import (
    DAY,
    HOUR,
    MINUTE,
    Floats,
    Ids,
    MetricDefinition,
    MinuteMatrix,
    Series,
    Statistic,
)

_TICKS = 60


def rolled_up(store: Store, url: str, options: argparse.Namespace) -> dict[str, float]:
    """Minutes of one resource set written, then compacted; disk of both."""
    series = Series(1, 7, 3, 4)
    writer = Writer(store, 1)
    writer.write(
        metrics=tuple(
            MetricDefinition(4, n, "vms", f"m{n}", "ratio", "gauge", 0, 1, "") for n in range(options.metrics)
        )
    )
    ids = np.arange(1, options.entities + 1, dtype=np.uint64)
    minutes = [
        MinuteMatrix(series, minute, minute, ids, values, sketch=sketch)
        for minute, (values, sketch) in zip(
            range(BEGAN, BEGAN + options.hours * HOUR, MINUTE), figures_of(options, ids), strict=True
        )
    ]
    values = len(minutes) * minutes[0].values.size * 5 // len(Statistic)  # five of them are real
    days = options.hours / 24 * options.entities * options.metrics * 1000
    empty, watch = disk(url, "minutes"), Stopwatch(store)
    for one in minutes:
        writer.write(minutes=(one,))
    clock, client, server = watch.read()
    found = {
        "values_per_second": round(values / clock),
        "client_cpu_us_per_value": round(client / values * 1e6, 3),
        "server_cpu_us_per_value": round(server / values * 1e6, 3),
        "minutes_kb": round((disk(url, "minutes") - empty) / days, 2),
    }
    watch = Stopwatch(store)
    end = BEGAN + options.hours * HOUR
    assert store.pass_on(end + HOUR) == len(minutes)
    _, client, server = watch.read()
    found |= {
        "passing_on_client_cpu_us_per_value": round(client / values * 1e6, 3),
        "passing_on_server_cpu_us_per_value": round(server / values * 1e6, 3),
    }
    if url.startswith("postgresql"):  # SQLite only has the size of the whole file
        found |= {f"{matrices[n].name}_kb": round(disk(url, matrices[n].name) / days, 2) for n in COARSER}
    watch = Stopwatch(store)
    assert store.compact(BEGAN + 9 * DAY) == len(minutes)
    _, client, server = watch.read()
    found |= {
        "compacting_client_cpu_us_per_value": round(client / values * 1e6, 3),
        "compacting_server_cpu_us_per_value": round(server / values * 1e6, 3),
    }
    if url.startswith("postgresql"):
        return found | {f"{table.name}_kb": round(disk(url, table.name) / days, 2) for table in rollups.values()}
    return found | {"all_rollups_kb": round((disk(url, "") - empty) / days, 2)}


def figures_of(options: argparse.Namespace, ids: Ids) -> list[tuple[Floats, bytes | None]]:
    """Statistics of every minute: a wandering load, in float32, with a few invalid samples; and its sketch."""
    random = np.random.default_rng(1)
    shape = (options.entities, options.metrics)
    level = random.random(shape)
    made = []
    for _ in range(options.hours * HOUR // MINUTE):
        samples = np.empty((_TICKS, *shape), np.float32)
        for tick in range(_TICKS):
            level = 0.98 * level + 0.02 * random.random(shape) + 0.01 * random.standard_normal(shape)
            samples[tick] = level
        values = np.full((len(Statistic), *shape), np.nan, np.float32)
        values[Statistic.COUNT] = _TICKS
        values[Statistic.VALID] = _TICKS - (random.random(shape) < 0.01) * random.integers(1, _TICKS, shape)
        values[Statistic.MEAN], values[Statistic.DEVIATION] = samples.mean(0), samples.std(0)
        values[Statistic.LOW], values[Statistic.HIGH] = samples.min(0), samples.max(0)
        values[Statistic.LAST] = samples[-1]
        wanted = np.arange(options.percentiles, dtype=np.int16)
        values[Statistic.P95][:, wanted] = np.sort(samples[:, :, wanted], 0)[56]  # of 60: the 57th is the nearest rank
        sketch = of_values(ids, wanted, samples[:, :, wanted]).encode() if len(wanted) else None
        made.append((values, sketch))
    return made


def disk(url: str, table: str) -> float:
    """Bytes of a table with its indexes; on SQLite of the whole database."""
    engine = make_engine(parse_url(url))
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            statement = (
                "SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0) FROM pg_inherits"
                f" WHERE inhparent = '{table}'::regclass"
            )
        else:
            statement = (
                "SELECT (page_count - freelist_count) * page_size"
                " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
            )
        found = float(connection.execute(text(statement)).scalar_one())
    engine.dispose()
    return found
