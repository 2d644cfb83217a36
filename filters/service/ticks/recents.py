"""Recent values, read when somebody asks: they are too many to be read with every picture."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from acquisition.config.settings import Settings
from acquisition.errors import ShardpulseError
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.recent import RecentTable
from filters.service.http.problem import unavailable


class Recents:
    """Reads the last 120 ticks of resource sets, for one thread at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._reader: SnapshotReader | None = None

    def read(self, owners: Sequence[Owner]) -> Mapping[Owner, RecentTable]:
        """The tables; absent where there are none. Raises Problem (503) when no shard answers."""
        if not owners:
            return {}
        with self._lock:
            try:
                if self._reader is None:
                    self._reader = SnapshotReader.from_settings(self._settings)
                return self._reader.recent(owners)
            except ShardpulseError as error:
                self._close()
                raise unavailable(f"recent values cannot be read: {error}", None) from error

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
