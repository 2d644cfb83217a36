"""The archive's database: what is known of the partitions, and one transaction per batch.

::

    with open_store("archive.db", "cluster-a") as store:
        cursors = store.cursors(range(256))
        ...
        if not store.commit(batch):
            ...  # another archiver has gone on with one of the partitions: read the cursors again
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from filters.archive.values import Batch, Cursor


def open_store(url: str, cluster: str = "shardpulse") -> Store:
    """The store of one cluster of shards in the database at ``url``.

    ``url`` is ``sqlite:///PATH``, a plain path, or ``postgresql://…`` as SQLAlchemy and libpq have it (TLS by
    ``?sslmode=verify-full``; a password from ``~/.pgpass`` or PGPASSFILE). Nothing is connected yet and nothing made.
    Raises UsageError where ``url`` is none of these.
    """
    raise NotImplementedError


class Store:
    """One connection, used by one thread at a time; made again after every error. All methods raise ArchiveError:
    where ``error.passing`` holds, the same call may succeed later, and nothing was written (but see
    ArchiveUnavailable)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back; the store may be used again."""
        raise NotImplementedError

    def cursors(self, partitions: Iterable[int]) -> dict[int, Cursor]:
        """How far each of the partitions is, one value for each, those without a row included."""
        raise NotImplementedError

    def commit(self, batch: Batch) -> bool:
        """Write everything in one transaction; True means durable.

        False: a partition has gone on from another commit than ``previous``, so nothing was written. Partitions are
        updated in ascending order, so that two archivers never wait for each other in a circle.
        """
        raise NotImplementedError

    def compact(self, now: float) -> int:
        """Take minute matrices whose hour ended two hours ago into entity x hour; how many matrices. One transaction
        per some hundred series, so that it may be stopped at any time."""
        raise NotImplementedError

    def retain(self, now: float) -> int:
        """Remove what is older than its retention; how many partitions (PostgreSQL) or rows (SQLite). It returns
        soon: on SQLite it removes a slice, and is to be called again while it is not 0."""
        raise NotImplementedError
