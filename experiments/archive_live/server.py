"""Server figures: contents and spent resources of the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import text

from experiments.harness import usage


def cpu_seconds(engine: Any) -> float:
    """CPU seconds of all current processes of a PostgreSQL; 0 for SQLite, which runs in the archiver."""
    if engine.dialect.name != "postgresql":
        return 0.0
    with engine.connect() as connection:
        own = int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
        connection.rollback()
    server = int(Path(f"/proc/{own}/stat").read_text().rpartition(") ")[2].split()[1])
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return sum(usage.cpu_seconds(pid) for pid in [server, *map(int, children)])


def state_bytes(engine: Any) -> int:
    """Bytes of state that all partitions need to resume."""
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT sum(length(state)) FROM partitions")).scalar_one())
