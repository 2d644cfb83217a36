"""What is older than its retention goes: whole parts on PostgreSQL, rows in slices on SQLite."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, text

from filters.archive.schema import PARTITIONED
from filters.archive.values import DAY

_DROP = text("SELECT archive_drop_parts(:parent, :width, :before)")
_SLICE = 5000  #: rows: some tens of milliseconds in which nobody else can write


class Retention(NamedTuple):
    """Days that each kind is kept; a part by time goes when its newest row is older."""

    minutes_days: float = 2
    five_minutes_days: float = 30
    hours_days: float = 730
    episodes_days: float = 90
    events_days: float = 730

    def limits(self, now: float) -> dict[str, int]:
        """Table -> before when its rows are too old."""
        days = {
            "minutes": self.minutes_days, "rollups_1m": self.minutes_days, "rollups_5m": self.five_minutes_days,
            "rollups_1h": self.hours_days, "five_minutes": self.five_minutes_days, "hours": self.hours_days,
            "episodes": self.episodes_days, "events": self.events_days,
        }  # fmt: skip
        return {table: int(now - limit * DAY) for table, limit in days.items()}


def apply(connection: Connection, name: str, before: int) -> int:
    """Remove some of a table that is older: a part is taken out of it, or one that was is dropped, or a slice of rows;
    how many parts or rows."""
    column, width = PARTITIONED[name]
    if connection.dialect.name == "postgresql":
        dropped: int = connection.execute(_DROP, {"parent": name, "width": width, "before": before}).scalar_one()
        return dropped
    old = f"SELECT rowid FROM {name} WHERE {column} < {before} LIMIT {_SLICE}"
    removed = connection.exec_driver_sql(f"DELETE FROM {name} WHERE rowid IN ({old})").rowcount
    if removed:
        connection.exec_driver_sql("PRAGMA incremental_vacuum(1000)")
    return removed
