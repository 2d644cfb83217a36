"""Archive cost: rows per second, disk, and waits while old parts are dropped."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from experiments.archive_cost.dropping import dropping
from experiments.archive_cost.episodes import episodes
from experiments.archive_cost.rollups import rolled_up
from experiments.harness import outcome
from experiments.processes import needs, postgresql
from experiments.processes.program import program
from filters.archive.database.engine import make_engine, parse_url, told
from filters.archive.database.migrating import migrate
from filters.archive.database.store import open_store

URL = "postgresql://…"  #: in place of the URL, which is local to this machine
_ROWS = ("episodes", "rollups", "dropping")
_DESCRIPTION = """\
Rows per second into the archive, its disk, and the waits when it forgets.

Of each database: episodes written (all new, then all again: idempotent upsert), and as many rows put
into a table without keys, without judging them (`bare`); minute matrices written and compacted, with
the disk of a day per entity and metric (`…_kb`) in either stage; and on PostgreSQL how long the
transactions take that drop parts of a day while others read and write, how long a drop has blocked one of
these, by the server's own account of waits for locks (it needs a superuser), and how long their
statements took, which on a busy machine is mostly waiting for a core.

Figures are autoregressive noise, as of a load that wanders; 1% of the samples are invalid. Rows per
second are by the clock; CPU times are more telling on a busy machine."""
_EXAMPLES = """
python -m experiments.archive_cost                                  SQLite in a temporary directory
python -m experiments.archive_cost postgresql sqlite                a PostgreSQL of one's own, then SQLite
python -m experiments.archive_cost postgresql://postgres@/empty     a database that may be filled and emptied
python -m experiments.archive_cost --only dropping postgresql       who waits while a day is dropped"""


@program("archive_cost")
def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = outcome.parser("archive_cost", _DESCRIPTION, _EXAMPLES, entities=101, metrics=5)
    parser.add_argument("url", nargs="*", help="URLs of databases, postgresql or sqlite (default): one of its own")
    parser.add_argument("--only", action="append", choices=_ROWS, help="measure some of them")
    parser.add_argument("--episodes", type=int, default=200_000, help="to write (default %(default)s)")
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
    named = [URL if one in options.url and "://" in one else one for one in argv]
    return outcome.conclude(outcome.document("archive_cost", named, [], found), options)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
