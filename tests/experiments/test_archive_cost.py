"""What ``experiments.archive_cost`` calls blocked is what the server has had wait for a lock, and nothing else."""

from __future__ import annotations

import psycopg2
import pytest

from experiments.archive_cost.dropping import Load
from filters.archive.engine import make_engine, parse_url
from filters.archive.migrating import migrate
from tests.support import postgresql as servers
from tests.support.archive_rows import rows
from tests.support.waiting import eventually

WAITS = "SELECT 1 FROM pg_locks WHERE NOT granted AND waitstart < clock_timestamp() - interval '50 ms'"


@pytest.mark.slow
def test_who_waits_for_a_lock_on_a_table_is_blocked() -> None:
    with servers.server() as server:
        url = server.url(server.create())
        engine = make_engine(parse_url(url))
        with engine.begin() as connection:
            migrate(connection)
        engine.dispose()
        loads = [Load(url, reads) for reads in (True, False)]
        holding = psycopg2.connect(url)
        try:
            eventually(lambda: all(one.longest for one in loads))
            holding.cursor().execute("LOCK TABLE episodes IN ACCESS EXCLUSIVE MODE")
            eventually(lambda: len(rows(url, WAITS)) == 2)
            holding.rollback()
            eventually(lambda: all(one.waits.milliseconds for one in loads))
        finally:
            holding.close()
            for one in loads:
                one.stop()
        assert all(50 <= max(one.waits.milliseconds) <= 1000 * one.longest for one in loads)
