"""Tables, and on PostgreSQL the functions that create and drop partitions."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

_NAMES = (
    "clusters", "partitions", "positions", "hosts", "entities", "entity_names", "metrics", "unprovided", "runs",
    "episodes", "events", "minutes", "five_minutes", "hours", "rollups_1m", "rollups_5m", "rollups_1h",
)  # fmt: skip
_STATISTICS = ("count", "valid", "mean", "deviation", "low", "high", "last", "p95")

#: Creates the part of a table that contains ``moment``; a caller needs no right to create tables. A part is created
#: separately and attached, which blocks no reader or writer; the lock makes two archivers safe, and is a transaction
#: lock because of poolers.
_MAKE = """
CREATE FUNCTION archive_make_part(parent text, part_column text, width bigint, moment bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    low bigint := moment - mod(moment, width);
    part text := parent || '_' || low;
BEGIN
    IF to_regclass(quote_ident(part)) IS NOT NULL THEN RETURN false; END IF;
    IF NOT EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = to_regclass(quote_ident(parent))) THEN
        RAISE EXCEPTION 'archive_make_part: % is no partitioned table', parent;
    END IF;
    PERFORM pg_advisory_xact_lock(7366812, hashtext(part));
    -- to_regclass would answer as before the wait: this session remembers that there was no such name
    IF EXISTS (SELECT FROM pg_class WHERE relname = part AND pg_table_is_visible(oid)) THEN RETURN false; END IF;
    -- rows of episodes are written again and again: room beside them, so that the index need not be
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) WITH (fillfactor = %s)',
                   part, parent, CASE parent WHEN 'episodes' THEN 70 ELSE 100 END);
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT within CHECK (%I >= %s AND %I < %s)',
                   part, part_column, low, part_column, low + width);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, part, low, low + width);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT within', part);
    RETURN true;
END $$
"""
#: Detaches a part that ends at ``before`` or earlier from its table, and drops it at the next call. Others wait for
#: it at most ``lock_timeout`` (a part that is being read stays until the next time), and not for the disk: a change
#: undone by a crash is repeated, and files are removed, which includes a write to the disk by the server, only when no
#: one else uses the part any more.
_DROP = """
CREATE FUNCTION archive_drop_parts(parent text, width bigint, before bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '50ms' AS $$
DECLARE
    part text;
    removed integer := 0;
BEGIN
    SELECT relname INTO part FROM pg_class
        WHERE relkind = 'r' AND NOT relispartition AND pg_table_is_visible(oid)
          AND relname ~ ('^' || parent || '_-?[0-9]+_gone$') LIMIT 1;
    IF FOUND THEN
        EXECUTE format('DROP TABLE %I', part);
        RETURN 1;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR part IN
        SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = to_regclass(quote_ident(parent))
          AND substring(relname FROM '_(-?[0-9]+)$')::bigint + width <= before
        ORDER BY relname LIMIT 1
    LOOP
        BEGIN
            EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, part);
            EXECUTE format('ALTER TABLE %I RENAME TO %I', part, part || '_gone');
            removed := removed + 1;
        EXCEPTION WHEN lock_not_available THEN NULL;
        END;
    END LOOP;
    RETURN removed;
END $$
"""


def upgrade() -> None:
    """Create all tables."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    _inventory()
    _happenings()
    _rollups(on_postgresql)
    if on_postgresql:
        op.execute(_MAKE)
        op.execute(_DROP)
        for function in ("archive_make_part(text, text, bigint, bigint)", "archive_drop_parts(text, bigint, bigint)"):
            op.execute(f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC")
    else:  # indexes for finding old rows where there are no parts
        for table, column in {"minutes": "minute", "five_minutes": "minute", "hours": "minute", "episodes": "day",
                              "events": "day"}.items():  # fmt: skip
            op.create_index(f"{table}_age", table, [column])
        for table in ("rollups_1m", "rollups_5m", "rollups_1h"):
            op.create_index(f"{table}_age", table, ["began"])


def downgrade() -> None:
    """Drop all tables, including data."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION archive_make_part")
        op.execute("DROP FUNCTION archive_drop_parts")
    for name in reversed(_NAMES):
        op.drop_table(name)


def _key(name: str, kind: type[sa.types.TypeEngine[Any]] = sa.BigInteger) -> sa.Column[object]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _needed(name: str, kind: object) -> sa.Column[object]:
    return sa.Column(name, kind, nullable=False)  # type: ignore[arg-type]


def _inventory() -> None:
    op.create_table("clusters", _key("cluster"), _needed("name", sa.Text))
    op.create_table(
        "partitions", _key("cluster"), _key("partition", sa.Integer), _needed("commit_id", sa.BigInteger),
        _needed("entry", sa.Text), _needed("state", sa.LargeBinary), _needed("committed", sa.Double),
    )  # fmt: skip
    op.create_table(
        "positions", _key("cluster"), _key("host"), _key("resource_set"), _key("epoch"),
        _needed("partition", sa.Integer), _needed("sequence", sa.BigInteger),
    )  # fmt: skip
    op.create_index("positions_partition", "positions", ["cluster", "partition"])
    op.create_table(
        "hosts", _key("cluster"), _key("host"), _needed("name", sa.Text), _needed("name_hash", sa.BigInteger),
        _needed("first_seen", sa.Double), _needed("last_seen", sa.Double),
    )  # fmt: skip
    op.create_index("hosts_name", "hosts", ["name_hash"])
    op.create_table(
        "entities", _key("cluster"), _key("entity"), _key("host"), _needed("resource_set", sa.BigInteger),
        _needed("kind", sa.Text), _needed("stable", sa.Text), _needed("stable_hash", sa.BigInteger),
        _needed("epoch", sa.Text), _needed("name", sa.Text), _needed("appeared", sa.Double),
        _needed("last_seen", sa.Double), sa.Column("vanished", sa.Double), sa.Column("moved_from", sa.BigInteger),
        _needed("labels", sa.Text),
    )  # fmt: skip
    op.create_index("entities_stable", "entities", ["stable_hash"])
    op.create_table(
        "entity_names", _key("cluster"), _key("entity"), _key("name_hash"), _needed("name", sa.Text),
        _needed("first_seen", sa.Double),
    )  # fmt: skip
    op.create_index("entity_names_name", "entity_names", ["name_hash"])
    op.create_table(
        "metrics", _key("schema"), _key("place", sa.SmallInteger), _needed("resource_set", sa.BigInteger),
        _needed("set_name", sa.Text), _needed("name", sa.Text), _needed("unit", sa.Text), _needed("kind", sa.Text),
        sa.Column("low", sa.Double), sa.Column("high", sa.Double), _needed("help", sa.Text),
    )  # fmt: skip
    op.create_table(
        "unprovided", _key("cluster"), _key("host"), _key("resource_set"), _key("metric_hash"),
        _needed("metric", sa.Text), _needed("since", sa.Double),
    )  # fmt: skip


def _happenings() -> None:
    op.create_table(
        "runs", _key("name", sa.Text), _needed("started", sa.Double), _needed("command", sa.Text),
        sa.Column("ended", sa.Double), _needed("figures", sa.Text),
    )  # fmt: skip
    op.create_table(
        "episodes", _key("host"), _key("entity"), _key("started", sa.Double), _key("metric_hash"),
        _key("code", sa.SmallInteger), _key("resource_set"), _key("cluster"), _key("day"), _needed("metric", sa.Text),
        _needed("ended", sa.Double), _needed("samples", sa.BigInteger), _needed("open", sa.Boolean),
        _needed("copies", sa.Text), postgresql_partition_by="RANGE (day)",
    )  # fmt: skip
    op.create_table(
        "events", _key("day"), _key("cluster"), _key("event"), _needed("time", sa.Double), _needed("kind", sa.Text),
        sa.Column("host", sa.BigInteger), sa.Column("entity", sa.BigInteger), _needed("details", sa.Text),
        postgresql_partition_by="RANGE (day)",
    )  # fmt: skip


def _rollups(on_postgresql: bool) -> None:
    def array(element: type[sa.types.TypeEngine[Any]]) -> sa.types.TypeEngine[Any]:
        return postgresql.ARRAY(element()) if on_postgresql else sa.LargeBinary()

    series = ("host", "resource_set", "epoch", "schema")
    for table in ("minutes", "five_minutes", "hours"):
        op.create_table(
            table, _key("cluster"), _key("minute"), *map(_key, series), _needed("tick", sa.BigInteger),
            _needed("late", sa.Integer), _needed("ids", array(sa.BigInteger)),
            *(sa.Column(name, array(sa.REAL)) for name in _STATISTICS), _needed("passed_on", sa.Boolean),
            sa.Column("sketch", sa.LargeBinary), postgresql_partition_by="RANGE (minute)",
        )  # fmt: skip
    fresh = sa.text("NOT passed_on")
    op.create_index("minutes_fresh", "minutes", ["cluster", "minute"], postgresql_where=fresh, sqlite_where=fresh)
    for table in ("rollups_1m", "rollups_5m", "rollups_1h"):
        op.create_table(
            table, _key("cluster"), _key("entity"), _key("began"), *map(_key, series),
            _needed("slots", sa.SmallInteger), _needed("offsets", array(sa.REAL)), sa.Column("steps", array(sa.REAL)),
            *(sa.Column(name, array(sa.SmallInteger)) for name in _STATISTICS),
            postgresql_partition_by="RANGE (began)",
        )  # fmt: skip
