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

    def by_table(self) -> dict[str, float]:
        """Table -> days."""
        return {
            "minutes": self.minutes_days, "rollups_1m": self.minutes_days, "rollups_5m": self.five_minutes_days,
            "rollups_1h": self.hours_days, "episodes": self.episodes_days, "events": self.events_days,
        }  # fmt: skip


def apply(connection: Connection, now: float, keep: Retention) -> int:
    """Remove some of what is too old: at most one part or slice of each table; how many parts or rows."""
    removed = 0
    for name, days in keep.by_table().items():
        column, width = PARTITIONED[name]
        before = int(now - days * DAY)
        if connection.dialect.name == "postgresql":
            values = {"parent": name, "width": width, "before": before}
            removed += connection.execute(_DROP, values).scalar_one()
            continue
        done = connection.execute(
            text(
                f"DELETE FROM {name} WHERE rowid IN (SELECT rowid FROM {name} WHERE {column} < :before LIMIT {_SLICE})"
            ),
            {"before": before},
        )
        removed += done.rowcount
    if removed and connection.dialect.name != "postgresql":
        connection.exec_driver_sql("PRAGMA incremental_vacuum(1000)")
    return removed
