"""Roles of a PostgreSQL archive: three users with least privileges each.

The owner migrates, the writer is the archiver, the reader is for all others. Parts of tables are created and dropped
by functions of the owner, so the writer itself can neither create nor drop anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg2.extensions import encrypt_password
from sqlalchemy import Connection, text

OWNER, WRITER, READER = "shardpulse_owner", "shardpulse_writer", "shardpulse_reader"
ROLES = (OWNER, WRITER, READER)
_FUNCTIONS = "archive_make_part(text, text, bigint, bigint), archive_drop_parts(text, bigint, bigint)"
_INVENTORY = "partitions, hosts, entities, entity_names, metrics, unprovided, runs, episodes"
_FIGURES = "minutes, five_minutes, hours, rollups_1m, rollups_5m, rollups_1h"
_GRANTS = (
    f"GRANT USAGE ON SCHEMA public TO {WRITER}, {READER}",
    f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {WRITER}, {READER}",
    f"GRANT INSERT, UPDATE ON {_INVENTORY} TO {WRITER}",
    f"GRANT INSERT ON clusters, events TO {WRITER}",
    f"GRANT INSERT, UPDATE, DELETE ON positions TO {WRITER}",
    f"GRANT INSERT, DELETE ON {_FIGURES} TO {WRITER}",
    f"GRANT UPDATE (passed_on) ON minutes TO {WRITER}",
    f"GRANT EXECUTE ON FUNCTION {_FUNCTIONS} TO {WRITER}",
)


def make(connection: Connection, passwords: Mapping[str, str]) -> None:
    """Create the roles, or set the passwords of existing ones; the server sees only their SCRAM verifiers.

    Needs the right to create roles and to grant rights on the database and its schema ``public``.
    """
    for role in ROLES:
        if not connection.execute(text("SELECT FROM pg_roles WHERE rolname = :role"), {"role": role}).all():
            connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE")
        if role in passwords:
            driver: Any = connection.connection.driver_connection
            verifier = encrypt_password(passwords[role], role, driver, "scram-sha-256")
            connection.exec_driver_sql(f"ALTER ROLE {role} PASSWORD '{verifier}'")
    database = connection.dialect.identifier_preparer.quote(connection.engine.url.database or "")
    connection.exec_driver_sql(f"GRANT CONNECT ON DATABASE {database} TO {', '.join(ROLES)}".replace("%", "%%"))
    connection.exec_driver_sql(f"GRANT TEMPORARY ON DATABASE {database} TO {WRITER}".replace("%", "%%"))
    connection.exec_driver_sql(f"GRANT USAGE, CREATE ON SCHEMA public TO {OWNER}")


def grant(connection: Connection) -> None:
    """Grant writer and reader their rights on the objects of a migration, if these roles exist."""
    found = connection.execute(
        text("SELECT count(*) FROM pg_roles WHERE rolname = ANY(:names)"), {"names": [WRITER, READER]}
    )
    if found.scalar_one() < 2:
        return
    for statement in _GRANTS:
        connection.exec_driver_sql(statement)
