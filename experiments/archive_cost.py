"""``python -m experiments.archive_cost``: rows per second into the archive, its disk, and the waits when it forgets.

    python -m experiments.archive_cost                                  # SQLite in a temporary directory
    python -m experiments.archive_cost postgresql sqlite                # a PostgreSQL of one's own, then SQLite
    python -m experiments.archive_cost postgresql://postgres@/empty     # a database that may be filled and emptied

One JSON document; of each database: episodes written (all new, then all again: idempotent upsert), and as many rows
put into a table without keys, without judging them (``bare``); minute matrices
written and compacted, with the disk of a day per entity and metric (``…_kb``) in either stage; and on PostgreSQL how
long the transactions take that drop parts of a day while others read and write, and how long the longest of these
waited.
Figures are autoregressive noise, as of a load that wanders; 1% of the samples are invalid. Rows per second are by the
clock; CPU times tell more on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import text

from experiments.processes import needs, postgresql
from experiments.processes.program import program
from filters.archive import records, retention, writing
from filters.archive.engine import make_engine, parse_url, told
from filters.archive.matrices import COARSER
from filters.archive.migrating import migrate
from filters.archive.schema import matrices, rollups
from filters.archive.sketch import of_values
from filters.archive.store import Store, open_store
from filters.archive.values import (
    DAY,
    HOUR,
    MINUTE,
    Advance,
    Batch,
    Episode,
    Event,
    Floats,
    Ids,
    MetricDefinition,
    MinuteMatrix,
    Series,
    Statistic,
)

_BEGAN = 1_700_000_000 // DAY * DAY
_TICKS = 60
_BATCH = 20_000
_ROWS = ("episodes", "rollups", "dropping")


@program("archive_cost")
def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="*", help="URLs of databases, postgresql or sqlite (default): one of its own")
    parser.add_argument("--only", action="append", choices=_ROWS, help="measure some of them")
    parser.add_argument("--json", action="store_true", help="as other programs have it: it is JSON in any case")
    parser.add_argument("--episodes", type=int, default=200_000)
    parser.add_argument("--entities", type=int, default=101)
    parser.add_argument("--metrics", type=int, default=5)
    parser.add_argument("--hours", type=int, default=24, help="of minutes that are written and compacted")
    parser.add_argument("--chunk-hours", type=int, default=1, choices=(1, 6), help="[archive] chunk_hours")
    parser.add_argument("--percentiles", type=int, default=0, help="metrics that get percentiles")
    options = parser.parse_args(argv)
    urls = ["" if url == "sqlite" else url for url in options.url or ["sqlite"]]
    needs.require(*map(postgresql.installed, urls))
    found: dict[str, Any] = {}
    for wanted in urls:
        with postgresql.database(wanted) as url:
            found |= measure(url, options)
    print(json.dumps(found, indent=1))
    return 0


def measure(url: str, options: argparse.Namespace) -> dict[str, Any]:
    """All rows of one database, under its name."""
    engine = make_engine(parse_url(url))
    with told(engine.url), engine.begin() as connection:
        migrate(connection)
    with open_store(url, chunk_hours=options.chunk_hours) as store:
        name, wanted = engine.dialect.name, options.only or _ROWS
        measured: dict[str, Callable[[], dict[str, float]]] = {
            "episodes": lambda: episodes(store, options.episodes),
            "rollups": lambda: rolled_up(store, url, options),
            "dropping": lambda: dropping(url) if name == "postgresql" else {},
        }
        return {name: {what: measured[what]() for what in wanted}}


class Writer:
    """Commits to one partition, one batch after the other."""

    def __init__(self, store: Store, partition: int) -> None:
        self._store, self._partition = store, partition
        self._last = store.cursors([partition])[partition].commit_id

    def write(self, **rows: Any) -> None:
        """One batch."""
        following = self._last + 1
        assert self._store.commit(Batch((Advance(self._partition, self._last, following, "0-1"),), **rows))
        self._last = following


def episodes(store: Store, count: int) -> dict[str, float]:
    """Rows per second, new and again."""
    writer = Writer(store, 0)
    figures: dict[str, float] = {}
    for what, samples in (("new", 1), ("again", 2)):
        rows = [
            Episode(n % 1000, 7, n, "cpu_busy_ratio", 3, _BEGAN + n / 10, _BEGAN + n / 10 + samples, samples, True)
            for n in range(count)
        ]
        watch = Stopwatch(store)
        for start in range(0, count, _BATCH):
            writer.write(episodes=tuple(rows[start : start + _BATCH]))
        clock, client, server = watch.read()
        figures[f"{what}_rows_per_second"] = round(count / clock)
        figures[f"{what}_client_cpu_us_per_row"] = round(client / count * 1e6, 2)
        figures[f"{what}_server_cpu_us_per_row"] = round(server / count * 1e6, 2)
    return figures | bare(store, rows)


def bare(store: Store, rows: list[Episode]) -> dict[str, float]:
    """The same rows, ready to be sent, into a table that has no keys."""
    batch = Batch((), episodes=tuple(rows))
    made = list(dict(records.tables(batch, 1))["episodes"])
    parts = [made[start : start + _BATCH] for start in range(0, len(made), _BATCH)]
    engine = store._engine
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE bare AS SELECT * FROM episodes WHERE 1 = 0")
    watch = Stopwatch(store)
    for part in parts:
        with engine.begin() as connection:
            writing.insert(connection, "episodes", part, into="bare")
    clock, client, server = watch.read()
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE bare")
    used = round((client + server) / len(rows) * 1e6, 2)
    return {"bare_rows_per_second": round(len(rows) / clock), "bare_cpu_us_per_row": used}


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
            range(_BEGAN, _BEGAN + options.hours * HOUR, MINUTE), figures_of(options, ids), strict=True
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
    end = _BEGAN + options.hours * HOUR
    assert store.pass_on(end + HOUR) == len(minutes)
    _, client, server = watch.read()
    found |= {
        "passing_on_client_cpu_us_per_value": round(client / values * 1e6, 3),
        "passing_on_server_cpu_us_per_value": round(server / values * 1e6, 3),
    }
    if url.startswith("postgresql"):  # of SQLite only the whole file can be told
        found |= {f"{matrices[n].name}_kb": round(disk(url, matrices[n].name) / days, 2) for n in COARSER}
    watch = Stopwatch(store)
    assert store.compact(_BEGAN + 9 * DAY) == len(minutes)
    _, client, server = watch.read()
    found |= {
        "compacting_client_cpu_us_per_value": round(client / values * 1e6, 3),
        "compacting_server_cpu_us_per_value": round(server / values * 1e6, 3),
    }
    if url.startswith("postgresql"):
        return found | {f"{table.name}_kb": round(disk(url, table.name) / days, 2) for table in rollups.values()}
    return found | {"all_rollups_kb": round((disk(url, "") - empty) / days, 2)}


def figures_of(options: argparse.Namespace, ids: Ids) -> list[tuple[Floats, bytes | None]]:
    """The statistics of every minute: a load that wanders, in float32, with a few samples invalid; and its sketch."""
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


class Stopwatch:
    """Seconds of the clock, of CPU of this process and of the server process behind a store."""

    def __init__(self, store: Store) -> None:
        with store._engine.connect() as connection:
            on_server = connection.dialect.name == "postgresql"
            found = connection.execute(text("SELECT pg_backend_pid()")).scalar_one() if on_server else os.getpid()
        self._server = Path(f"/proc/{found}/stat")
        self._begun = self._now()

    def read(self) -> tuple[float, float, float]:
        """Since it was made; on SQLite the client is the server."""
        clock, client, server = (now - then for now, then in zip(self._now(), self._begun, strict=True))
        return clock, client, server

    def _now(self) -> tuple[float, float, float]:
        ticks = self._server.read_text().rpartition(") ")[2].split()[11:13]
        return time.perf_counter(), time.process_time(), sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def dropping(url: str, days: int = 6) -> dict[str, float]:
    """Parts of several days dropped one by one while two others read and write; milliseconds."""
    now = _BEGAN + 40 * DAY
    with open_store(url) as store:
        writer = Writer(store, 2)
        for day in range(days):
            start = now - (100 - day) * DAY
            writer.write(episodes=tuple(
                Episode(1, 7, n, "cpu_busy_ratio", 3, start + n / 10, start + n / 10 + 1, 1, False, ())
                for n in range(20_000)
            ))  # fmt: skip
        stop, waits = threading.Event(), [0.0, 0.0]
        others = [threading.Thread(target=load, args=(url, n, now, stop, waits)) for n in (0, 1)]
        for other in others:
            other.start()
        time.sleep(1)
        before, took = list(waits), []
        for _ in range(10 * days):
            started = time.perf_counter()
            with store._engine.begin() as connection:
                removed = retention.apply(connection, "episodes", now - 90 * DAY)
            if removed:
                took.append(time.perf_counter() - started)
            time.sleep(0.2)
        stop.set()
        for other in others:
            other.join()
    return {
        "transactions": len(took), "median_ms": round(statistics.median(took) * 1000, 1),
        "longest_ms": round(max(took) * 1000, 1),
        "longest_wait_of_reader_ms": round(waits[0] * 1000, 1), "of_writer_ms": round(waits[1] * 1000, 1),
        "the_same_before_ms": round(max(before) * 1000, 1),
    }  # fmt: skip


def load(url: str, kind: int, now: float, stop: threading.Event, waits: list[float]) -> None:
    """Read or write episodes all the time; the longest that it took goes into ``waits``."""
    with open_store(url) as store:
        writer, engine, number = Writer(store, 3 + kind), make_engine(parse_url(url)), 0
        while not stop.is_set():
            started = time.perf_counter()
            if kind == 0:
                with engine.connect() as connection:
                    connection.execute(text(f"SELECT count(*) FROM episodes WHERE day >= {int(now) - 99 * DAY}")).all()
            else:
                number += 1
                writer.write(events=(Event(now + number, "load"),), episodes=(
                    Episode(2, 7, number, "cpu_busy_ratio", 3, now + number, now + number + 1, 1, False, ()),
                ))  # fmt: skip
            waits[kind] = max(waits[kind], time.perf_counter() - started)
        engine.dispose()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
