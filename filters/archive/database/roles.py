"""Roles of a PostgreSQL archive: three users with least privileges each.

The owner migrates, the writer is the archiver, the reader is for everybody else. Parts of tables are made and dropped
through functions of the owner's, so the writer can neither make nor drop anything by itself.
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
    """Make the roles, or give those that are there these passwords; the server sees only their SCRAM verifiers.

    Needs the right to make roles and to grant rights on the database and its schema ``public``.
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
    """Give writer and reader their rights on what a migration has made, where there are such roles."""
    found = connection.execute(
        text("SELECT count(*) FROM pg_roles WHERE rolname = ANY(:names)"), {"names": [WRITER, READER]}
    )
    if found.scalar_one() < 2:
        return
    for statement in _GRANTS:
        connection.exec_driver_sql(statement)
