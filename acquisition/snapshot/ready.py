"""Coherent snapshots for who asks often: a thread reads ahead, so that whoever asks finds most of it read.

Nearly all that a reading costs is receiving and judging a tick's records. The thread does that as soon as the tick is
due, and a few times a second for what has been committed since. Who asks still asks the shards what was committed, and
reads that: the answer is that of a ``SnapshotReader`` at this moment, never an older one.

::

    with SnapshotReader.connect() as reader, ReadyReader(reader) as ready:
        snapshot = ready.coherent()
"""

from __future__ import annotations

import threading
from typing import Self

from acquisition.errors import ShardpulseError
from acquisition.snapshot.found import Takes
from acquisition.snapshot.reader import SnapshotReader
from acquisition.snapshot.snapshot import Snapshot

EVERY = 0.05  #: seconds between two readings of the thread
_AFTER_ERROR = 1.0  #: seconds
_MARGIN = 0.001  #: seconds behind the moment when a tick becomes due


class ReadyReader:
    """Reads with ``reader``, which nobody else may use before ``close``; any thread may ask.

    ``takes`` is that of ``SnapshotReader.coherent``, for all readings; ``every`` seconds, and when a tick becomes due,
    the thread reads. What it cannot read is told to who asks.
    """

    def __init__(self, reader: SnapshotReader, takes: Takes | None = None, every: float = EVERY) -> None:
        self._reader, self._takes, self._every = reader, takes, every
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read_ahead, name="reading ahead", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread, after what it is reading; the reader is the caller's again."""
        self._ended.set()
        self._thread.join()

    def coherent(self) -> Snapshot:
        """As ``SnapshotReader.coherent``."""
        with self._lock:
            return self._reader.coherent(self._takes)

    def _read_ahead(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            with self._lock:
                try:
                    self._reader.coherent(self._takes)
                    pause = min(self._every, max(0.0, self._reader.seconds_until_due()) + _MARGIN)
                except ShardpulseError:
                    pause = _AFTER_ERROR
