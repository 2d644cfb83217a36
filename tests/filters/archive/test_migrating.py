from __future__ import annotations

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, text

from filters.archive.database.engine import make_engine, parse_url
from filters.archive.database.errors import SchemaTooNew, SchemaTooOld
from filters.archive.database.migrating import VERSION, migrate, version
from filters.archive.database.schema import PARTITIONED, metadata
from filters.archive.database.store import open_store
from tests.support.archive_rows import HOUR_BEGAN, batch, definitions, episode, matrix, rows

SAMPLES = np.arange(24, dtype=np.float32).reshape(6, 2, 2)


def connect(url: str) -> Engine:
    return make_engine(parse_url(url))


def fill(url: str) -> None:
    with open_store(url) as store:
        assert store.commit(
            batch(
                minutes=(matrix(HOUR_BEGAN, SAMPLES),), metrics=definitions(), episodes=(episode(1),),
            )
        )  # fmt: skip


def only_elsewhere(engine_name: str, kind: str, name: str | None) -> bool:
    """What autogenerate would drop on PostgreSQL, parts of tables, or make there: it does not ask ``ddl_if``."""
    table, _, end = (name or "").rpartition("_")
    return engine_name == "postgresql" and table in PARTITIONED and (kind == "index" or end.isdigit())


def test_the_schema_is_that_of_the_migrations(engine_name: str, migrated: str) -> None:
    fill(migrated)
    options = {"include_object": lambda what, name, kind, reflected, other: not only_elsewhere(engine_name, kind, name)}
    with connect(migrated).connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []


def test_a_filled_database_goes_down_a_version_and_up_again(migrated: str) -> None:
    fill(migrated)
    before = rows(migrated, "SELECT entity, metric, seconds, mean FROM rollup_values ORDER BY 1, 2")
    assert len(before) == 4
    engine = connect(migrated)
    with engine.begin() as connection:
        migrate(connection, "0001")
        assert version(connection) == "0001"
    with (
        open_store(migrated) as store,
        pytest.raises(SchemaTooOld, match="version 0001 of its schema"),
    ):
        store.cursors([3])
    with engine.begin() as connection:
        migrate(connection)
        assert version(connection) == VERSION
    assert rows(migrated, "SELECT entity, metric, seconds, mean FROM rollup_values ORDER BY 1, 2") == before
    with engine.begin() as connection:
        migrate(connection, "base")
        migrate(connection)
    assert rows(migrated, "SELECT * FROM rollup_values") == []


def test_without_a_schema_it_is_said_what_to_do(url: str) -> None:
    with open_store(url) as store, pytest.raises(SchemaTooOld, match="no schema yet: run `shardpulse archive migrate`"):
        store.commit(batch())


def test_a_newer_schema_is_refused_and_left_alone(migrated: str) -> None:
    engine = connect(migrated)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with open_store(migrated) as store, pytest.raises(SchemaTooNew, match="version 9999"):
        store.commit(batch())
    with engine.begin() as connection, pytest.raises(SchemaTooNew, match="nothing was changed"):
        migrate(connection)


def test_a_migration_that_fails_changes_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = connect(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE runs (name text)"))  # somebody else's, in the way
    with pytest.raises(Exception, match="runs"), engine.begin() as connection:
        migrate(connection)
    with engine.begin() as connection:
        assert version(connection) is None
        connection.execute(text("DROP TABLE runs"))
        migrate(connection)
