"""Episode writes: all new, all repeated, and into a table without keys."""

from __future__ import annotations

from experiments.archive_cost.writer import BEGAN, Stopwatch, Writer
from filters.archive.database import records, writing
from filters.archive.database.store import Store
from filters.archive.minutes.values import Batch, Episode

_BATCH = 20_000


def episodes(store: Store, count: int) -> dict[str, float]:
    """Rows per second, new and again."""
    writer = Writer(store, 0)
    figures: dict[str, float] = {}
    for what, samples in (("new", 1), ("again", 2)):
        rows = [
            Episode(n % 1000, 7, n, "cpu_busy_ratio", 3, BEGAN + n / 10, BEGAN + n / 10 + samples, samples, True)
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
    """The same rows, ready to be sent, into a table without keys."""
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
