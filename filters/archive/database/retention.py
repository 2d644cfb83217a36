"""Retention: drops whole partitions on PostgreSQL, deletes in slices on SQLite."""

from __future__ import annotations

from sqlalchemy import Connection, text

from acquisition.config.archive import Archive
from filters.archive.database.schema import PARTITIONED
from filters.archive.minutes.values import DAY

_DROP = text("SELECT archive_drop_parts(:parent, :width, :before)")
_SLICE = 5000  #: rows: tens of milliseconds in which no one else can write


#: Table -> setting of [archive] with the retention of its rows in days; a part by time is dropped when its newest
#: row is older.
SETTINGS = {
    "minutes": "minutes_days", "rollups_1m": "minutes_days", "rollups_5m": "five_minutes_days",
    "rollups_1h": "hours_days", "five_minutes": "five_minutes_days", "hours": "hours_days",
    "episodes": "episodes_days", "events": "events_days",
}  # fmt: skip


def limits(settings: Archive, now: float) -> dict[str, int]:
    """Table -> time before which its rows are too old."""
    return {table: int(now - getattr(settings, name) * DAY) for table, name in SETTINGS.items()}


def apply(connection: Connection, name: str, before: int) -> int:
    """Remove some older rows of a table: detach a part, or drop a detached one, or delete a slice of rows. Returns the
    number of parts or rows."""
    column, width = PARTITIONED[name]
    if connection.dialect.name == "postgresql":
        dropped: int = connection.execute(_DROP, {"parent": name, "width": width, "before": before}).scalar_one()
        return dropped
    old = f"SELECT rowid FROM {name} WHERE {column} < {before} LIMIT {_SLICE}"
    removed = connection.exec_driver_sql(f"DELETE FROM {name} WHERE rowid IN ({old})").rowcount
    if removed:
        connection.exec_driver_sql("PRAGMA incremental_vacuum(1000)")
    return removed
