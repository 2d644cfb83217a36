"""Archiver and database live: CPU, lag, catch-up rate, recovery from kills."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from experiments.archive_live.backlog import backlog
from experiments.archive_live.live import live
from experiments.harness import outcome
from experiments.processes import needs, postgresql
from experiments.processes.program import program
from filters.archive.database.engine import make_engine, parse_url, told
from filters.archive.database.migrating import migrate

_DESCRIPTION = """\
What the archiver and its database take, how far behind they are, how fast they catch up.

`live`: the whole pipeline of `ingest` with `shardpulse archive run` beside it. 1% of the samples are
invalid, in runs of 1 to 60 s; a minute is readable when rows of all hosts are there, and how long entries
wait until they are applied is what the archiver says; freshness is measured without the archiver and with
it, in turn.
`backlog`: frames of --ticks seconds lie in the streams, as after so long without a database, and an
archiver in this process takes them as fast as it can; invalid are as many. What it costs a sample is what
it costs live. With --in-minutes a minute of frames after the other lies there, which takes less memory.

Live speed is 50,500 samples/s for 100 hosts of 101 entities with 5 metrics."""
_EXAMPLES = """
python -m experiments.archive_live --row live postgresql        a PostgreSQL of one's own, of Debian's package
python -m experiments.archive_live --row live postgresql://postgres@/empty      a database that may be filled
python -m experiments.archive_live --row live                                   SQLite in a temporary directory
python -m experiments.archive_live --row backlog --ticks 600 postgresql         ten minutes without a database
python -m experiments.archive_live --row backlog --hosts 10000 --metrics 4 --ticks 180 --in-minutes postgresql"""
_ROWS = {"live": live, "backlog": backlog}


@program("archive_live")
def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = outcome.parser("archive_live", _DESCRIPTION, _EXAMPLES, hosts=100, entities=101, metrics=5)
    parser.add_argument("url", nargs="?", default="", help="the database, or postgresql: one of its own; else SQLite")
    parser.add_argument("--row", choices=_ROWS, default="live")
    parser.add_argument("--minutes", type=int, default=2, help="that live waits for")
    parser.add_argument("--turns", type=int, default=2, help="of freshness without the archiver and with it")
    parser.add_argument("--ticks", type=int, default=600, help="seconds of frames of a backlog")
    parser.add_argument("--in-minutes", action="store_true", help="feed a backlog a minute after the other")
    options = parser.parse_args(argv)
    needs.require(postgresql.installed(options.url))
    with (
        tempfile.TemporaryDirectory(prefix="shardpulse-archive-") as place,
        postgresql.database(options.url) as url,
    ):
        engine = make_engine(parse_url(url))
        with told(engine.url), engine.begin() as connection:
            migrate(connection)
        engine.dispose()
        figures = _ROWS[options.row](options, url, Path(place))
    name = engine.dialect.name  # in place of the URL, which is local to this machine
    arguments = [name if one and one == options.url else one for one in argv]
    found = {"row": options.row, "database": name, **figures}
    return outcome.conclude(outcome.document("archive_live", arguments, [], found), options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
