"""Writer process of the measured rows, and its monitor."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from sqlalchemy import text

from filters.archive.database.store import Store
from filters.archive.minutes.values import DAY, Advance, Batch

BEGAN = 1_700_000_000 // DAY * DAY


class Writer:
    """Commits to one partition, one batch after the other."""

    def __init__(self, store: Store, partition: int) -> None:
        self._store, self._partition = store, partition
        self._last = store.cursors([partition])[partition].commit_id

    def write(self, **rows: Any) -> None:
        """One batch."""
        following = self._last + 1
        assert self._store.commit(Batch((Advance(self._partition, self._last, following, "0-1"),), **rows))
        self._last = following


class Stopwatch:
    """Wall-clock seconds, and CPU seconds of this process and of the server process of a store."""

    def __init__(self, store: Store) -> None:
        with store._engine.connect() as connection:
            on_server = connection.dialect.name == "postgresql"
            found = connection.execute(text("SELECT pg_backend_pid()")).scalar_one() if on_server else os.getpid()
        self._server = Path(f"/proc/{found}/stat")
        self._begun = self._now()

    def read(self) -> tuple[float, float, float]:
        """Seconds since its creation; on SQLite the client is the server."""
        clock, client, server = (now - then for now, then in zip(self._now(), self._begun, strict=True))
        return clock, client, server

    def _now(self) -> tuple[float, float, float]:
        ticks = self._server.read_text().rpartition(") ")[2].split()[11:13]
        return time.perf_counter(), time.process_time(), sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
