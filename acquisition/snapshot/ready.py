"""Coherent snapshots for who asks often: a thread reads ahead, so that whoever asks finds most of it read.

Nearly all that a reading costs is receiving and judging a tick's records. The thread receives them just before the tick
is due, when nearly all have come, judges them as soon as it is, and reads a few times a second what has been committed
since. Who asks still asks the shards what was committed, and reads that: the answer is that of a ``SnapshotReader`` at
this moment, never an older one.

::

    with SnapshotReader.connect() as reader, ReadyReader(reader) as ready:
        snapshot = ready.coherent()
"""

from __future__ import annotations

from typing import Self

from acquisition.snapshot.ahead import Ahead
from acquisition.snapshot.found import Takes
from acquisition.snapshot.reader import DUE_MARGIN, SnapshotReader
from acquisition.snapshot.snapshot import Snapshot

EVERY = 0.05  #: seconds behind a reading in which nobody has asked, the thread reads
LEAD = 0.02  #: seconds before a tick is due, its records are read


class ReadyReader:
    """Reads with ``reader``, which nobody else may use before ``close``; any thread may ask.

    ``takes`` is that of ``SnapshotReader.coherent``, for all readings; ``every`` seconds, and when a tick becomes due,
    the thread reads, unless somebody has asked. What it cannot read is told to who asks.
    """

    def __init__(self, reader: SnapshotReader, takes: Takes | None = None, every: float = EVERY) -> None:
        self._reader, self._takes, self._every = reader, takes, every
        self._looked = False  #: whether the records of the next tick have been read
        self._ahead = Ahead(self._read, self._pause, self._prepare)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread, after what it is reading; the reader is the caller's again."""
        self._ahead.close()

    def coherent(self) -> Snapshot:
        """As ``SnapshotReader.coherent``."""
        return self._ahead.ask()

    def _read(self) -> Snapshot:
        return self._reader.coherent(self._takes)

    def _prepare(self) -> None:
        """A turn of the thread."""
        if self._looked or self._reader.seconds_until_due() > LEAD:
            self._read()
        else:
            self._looked = True
            self._reader.look_ahead()

    def _pause(self) -> float:
        """Seconds from a reading to the next turn of the thread."""
        until = max(0.0, self._reader.seconds_until_due())
        if until > LEAD:
            self._looked = False
            return min(self._every, until - LEAD)
        return until + DUE_MARGIN if self._looked else 0.0
