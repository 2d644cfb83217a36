"""Databases for tests of the archive, of both engines, each a test's own.

``postgresql``  the server of this process of pytest
``url``         an empty database: the test runs once on SQLite and once on PostgreSQL
``migrated``    the same with the schema in it
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from filters.archive.database.engine import make_engine, parse_url
from filters.archive.database.migrating import migrate
from tests.support.postgresql import PostgreSQL, server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with server() as running:
        yield running


@pytest.fixture(scope="session")
def template(postgresql: PostgreSQL) -> str:
    name = postgresql.create()
    bring_up(postgresql.url(name))
    return name


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def url(engine_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if engine_name == "sqlite":
        return f"sqlite:///{tmp_path}/archive.db"
    postgresql: PostgreSQL = request.getfixturevalue("postgresql")
    return postgresql.url(postgresql.create())


@pytest.fixture
def migrated(engine_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if engine_name == "sqlite":
        return bring_up(f"sqlite:///{tmp_path}/archive.db")
    template: str = request.getfixturevalue("template")
    postgresql: PostgreSQL = request.getfixturevalue("postgresql")
    return postgresql.url(postgresql.create(template))


def bring_up(url: str) -> str:
    engine = make_engine(parse_url(url))
    with engine.begin() as connection:
        migrate(connection)
    engine.dispose()
    return url
