"""Migration of a database schema: reads, upgrades and downgrades its version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import alembic.config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from filters.archive.database import migrations
from filters.archive.database.errors import SchemaTooNew, SchemaTooOld
from filters.archive.database.schema import metadata

#: The version that this software writes and reads.
VERSION = "0002"
_LOCK = 7366811  #: PostgreSQL lock, for the duration of the transaction: concurrent migrations wait for each other
_READ = text("SELECT version_num FROM alembic_version")


def check_version(connection: Connection) -> None:
    """Raise SchemaTooOld or SchemaTooNew unless the schema is ours. Called in every transaction: a migration may come
    between two."""
    found: str | None = connection.execute(_READ).scalar()  # `told` explains a missing table
    if found == VERSION:
        return
    if found is None or found in {revision.revision for revision in _scripts().walk_revisions()}:
        has = f"version {found} of its schema" if found else "no schema yet"
        raise SchemaTooOld(f"the archive has {has}, not {VERSION}: run `shardpulse archive migrate`")
    raise SchemaTooNew(f"the archive's schema version {found} is newer than {VERSION}: upgrade shardpulse")


def version(connection: Connection) -> str | None:
    """The version of the schema; None if absent."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(_READ).scalar()
    return found


def migrate(connection: Connection, to: str = VERSION) -> None:
    """Migrate the schema to a version, up or down (``base``: none), in the transaction of ``connection``."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    scripts = _scripts()
    found = version(connection)
    if found is not None and connection.dialect.name == "postgresql":
        # waits for transactions that have read the version; others wait to read it until this one has ended
        connection.execute(text("LOCK TABLE alembic_version"))
    known = [revision.revision for revision in scripts.walk_revisions()][::-1]
    if found is not None and found not in known:
        raise SchemaTooNew(f"the archive's schema version {found} is newer than {VERSION}: nothing was changed")
    down = to == "base" or (found is not None and known.index(to) < known.index(found))
    steps: Callable[..., Any] = scripts._downgrade_revs if down else scripts._upgrade_revs
    with EnvironmentContext(_config(), scripts, fn=lambda now, _: steps(to, now), destination_rev=to) as environment:
        environment.configure(connection=connection, target_metadata=metadata)
        environment.run_migrations()


def _config() -> alembic.config.Config:
    config = alembic.config.Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
