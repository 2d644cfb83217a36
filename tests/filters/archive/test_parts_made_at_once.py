"""Archivers that need the same part of a table at the same moment: one makes it, the other finds it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, text

from filters.archive.database.engine import make_engine, parse_url
from filters.archive.database.errors import ArchiveUnavailable
from filters.archive.database.migrations.versions.v0001_tables import _MAKE as _FUNCTION
from filters.archive.database.store import open_store
from filters.archive.minutes.values import DAY
from tests.support.archive_rows import HOUR_BEGAN, batch, episode, rows
from tests.support.postgresql import PostgreSQL
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

_WAITS = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
_DAY = HOUR_BEGAN - HOUR_BEGAN % DAY
_MAKE = text(f"SELECT archive_make_part('episodes', 'day', {DAY}, {_DAY})")


@pytest.fixture
def url(postgresql: PostgreSQL, template: str) -> str:
    return postgresql.url(postgresql.create(template))


def made(connection: Connection) -> bool:
    found: bool = connection.execute(_MAKE).scalar_one()
    return found


def test_who_waits_for_the_other_finds_what_that_one_has_made(url: str) -> None:
    with open_store(url) as store, ThreadPoolExecutor(1) as beside:
        with make_engine(parse_url(url)).begin() as first:
            assert made(first)
            later = beside.submit(store.commit, batch(episodes=(episode(1, HOUR_BEGAN + 0.5),)))
            eventually(lambda: rows(url, _WAITS))
        assert later.result()
    assert len(rows(url, "SELECT 1 FROM episodes")) == 1


def test_who_waits_for_one_that_gives_up_makes_it(url: str) -> None:
    with open_store(url) as store, ThreadPoolExecutor(1) as beside:
        with make_engine(parse_url(url)).connect() as first:
            assert made(first)
            later = beside.submit(store.commit, batch(episodes=(episode(1, HOUR_BEGAN + 0.5),)))
            eventually(lambda: rows(url, _WAITS))
            first.rollback()
        assert later.result()
    assert len(rows(url, "SELECT 1 FROM episodes")) == 1


def test_a_database_of_before_is_asked_again(url: str) -> None:
    """Its function does not see what was made while it waited: that passes."""
    now = "IF EXISTS (SELECT FROM pg_class WHERE relname = part AND pg_table_is_visible(oid))"
    assert now in _FUNCTION
    older = _FUNCTION.replace(now, "IF to_regclass(quote_ident(part)) IS NOT NULL").replace(
        "CREATE", "CREATE OR REPLACE", 1
    )
    with make_engine(parse_url(url)).begin() as connection:
        connection.exec_driver_sql(older.replace("%", "%%"))
    rows_of_it = batch(episodes=(episode(1, HOUR_BEGAN + 0.5),))
    with open_store(url) as store, ThreadPoolExecutor(1) as beside:
        with make_engine(parse_url(url)).begin() as first:
            assert made(first)
            later = beside.submit(store.commit, rows_of_it)
            eventually(lambda: rows(url, _WAITS))
        with pytest.raises(ArchiveUnavailable, match="already exists") as error:
            later.result()
        assert error.value.passing
        assert store.commit(rows_of_it)
