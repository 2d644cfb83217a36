"""Archive store: progress per partition, and one transaction per batch.

::

    with open_store("archive.db", "cluster-a") as store:
        cursors = store.cursors(range(256))
        ...
        if not store.commit(batch):
            ...  # another archiver has continued one of the partitions: read the cursors again
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Self

from sqlalchemy import URL, Connection, Engine, delete, select, text

from acquisition.config.archive import Archive
from acquisition.config.regression import Regression
from acquisition.model.identity import identity
from filters.archive.database import compaction, matrices, records, regressions, retention, schema, writing
from filters.archive.database.compaction import Stage
from filters.archive.database.engine import make_engine, parse_url, told
from filters.archive.database.errors import ArchiveRejected
from filters.archive.database.migrating import check_version
from filters.archive.database.regressions import Judged
from filters.archive.database.schema import PARTITIONED
from filters.archive.minutes.escape import escape, signed
from filters.archive.minutes.values import DAY, FIVE_MINUTES, MINUTE, Advance, Batch, Cursor, Position

_INSERT = text(
    "INSERT INTO partitions (cluster, partition, commit_id, entry, state, committed)"
    " VALUES (:cluster, :partition, :commit_id, :entry, :state, :now) ON CONFLICT DO NOTHING"
)
_UPDATE = text(
    "UPDATE partitions SET commit_id = :commit_id, entry = :entry, state = :state, committed = :now"
    " WHERE cluster = :cluster AND partition = :partition AND commit_id = :previous"
)
_FORGET = text(
    "DELETE FROM positions WHERE cluster = :cluster AND host IN"
    " (SELECT host FROM hosts WHERE cluster = :cluster AND last_seen < :before)"
)
_FORGET_EVERY, _FORGET_AFTER = 900.0, 7200.0  #: seconds
_TOGETHER = 500  #: hosts per query
_FIRST = text("INSERT INTO clusters (cluster, name) VALUES (:cluster, :name) ON CONFLICT DO NOTHING")
_MAKE_PART = text("SELECT archive_make_part(:parent, :column, :width, :moment)")


def open_store(url: str, cluster: str = "shardpulse", chunk_hours: int = 1) -> Store:
    """Store of one cluster of shards in the database at ``url``; 1 or 6 hours of minutes become one row.

    ``url`` is ``sqlite:///PATH``, a plain path, or ``postgresql://…`` as in SQLAlchemy and libpq (TLS by
    ``?sslmode=verify-full``; a password from ``~/.pgpass`` or PGPASSFILE). It does not connect or create anything yet.
    Raises UsageError for any other ``url``.
    """
    return Store(parse_url(url), cluster, chunk_hours)


class Store:
    """One connection, used by one thread at a time and reopened after every error. All methods raise ArchiveError:
    if ``error.passing``, the same call may succeed later, and nothing was written (but see
    ArchiveUnavailable)."""

    def __init__(self, url: URL, cluster: str, chunk_hours: int = 1) -> None:
        self._url, self._chunk_hours = url, chunk_hours
        self._engine: Engine = make_engine(url)
        self._name = cluster
        self._cluster = signed(identity("cluster", escape(cluster)))
        self._parts: set[tuple[str, int]] = set()  #: existing parts of tables
        self._forget_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the store may be used again."""
        self._engine.dispose()

    def cursors(self, partitions: Iterable[int]) -> dict[int, Cursor]:
        """Progress of each of the partitions, including those without a row."""
        wanted = sorted(partitions)
        table, held = schema.partitions, schema.positions
        positions: dict[int, list[Position]] = {partition: [] for partition in wanted}
        with self._transaction() as connection:
            rows = connection.execute(
                select(table).where(table.c.cluster == self._unsigned, table.c.partition.in_(wanted))
            )
            known = {row.partition: row for row in rows}
            for row in connection.execute(
                select(held).where(held.c.cluster == self._unsigned, held.c.partition.in_(wanted))
            ):
                positions[row.partition].append(Position(row.host, row.resource_set, row.epoch, row.sequence))
        return {
            number: Cursor(number, known[number].commit_id, known[number].entry, known[number].state,
                           tuple(positions[number])) if number in known else Cursor(number)
            for number in wanted
        }  # fmt: skip

    def positions(self, sets: Collection[tuple[int, int]]) -> list[Position]:
        """Known positions of these (host, resource set)."""
        held, hosts = schema.positions, sorted({host for host, _ in sets})
        found: list[Position] = []
        with self._transaction() as connection:
            for first in range(0, len(hosts), _TOGETHER):
                some = hosts[first : first + _TOGETHER]
                rows = connection.execute(select(held).where(held.c.cluster == self._unsigned, held.c.host.in_(some)))
                found += [Position(row.host, row.resource_set, row.epoch, row.sequence) for row in rows]
        return [position for position in found if position[:2] in sets]

    def commit(self, batch: Batch) -> bool:
        """Write everything in one transaction; True means durable.

        False: a partition has continued from another commit than ``previous``, so nothing was written. Partitions are
        updated in ascending order, so that two archivers cannot deadlock.
        """
        with self._storing(batch) as connection:
            connection.execute(_FIRST, {"cluster": self._cluster, "name": escape(self._name)})
            for advance in sorted(batch.advances):
                if not self._advance(connection, advance):
                    connection.rollback()
                    return False
            self._write(connection, batch)
        return True

    def accepts(self, batch: Batch) -> bool:
        """Whether these rows can be stored, tested in a transaction that is rolled back."""
        try:
            with self._storing(batch) as connection:
                self._write(connection, batch)
                connection.rollback()
        except ArchiveRejected:
            return False
        return True

    def pass_on(self, now: float) -> int:
        """Add minutes to the 5-minute and hour levels, two minutes after their 5 minutes are over; returns how many."""
        before = (int(now) - 2 * MINUTE) // FIVE_MINUTES * FIVE_MINUTES
        with self._transaction() as connection:
            oldest = compaction.oldest_fresh(connection, self._cluster, before)
        if oldest is None:
            return 0
        days = range(oldest - oldest % DAY, before, DAY)
        self._make((schema.matrices[level].name, day) for level in matrices.COARSER for day in days)
        return self._until_done(partial(compaction.pass_on, before=before))

    def compact(self, now: float) -> int:
        """Compact matrices into rows per entity: minutes two hours after their hours are over, coarser levels after
        their day; returns the number of minutes. One transaction per few series, so it can be stopped at any time."""
        return sum([self._compact(stage, now) for stage in compaction.stages(self._chunk_hours)][:1])

    def _compact(self, stage: Stage, now: float) -> int:
        done = 0
        with self._transaction() as connection:
            found = compaction.due(connection, self._cluster, stage, now)
        for began in found:
            levels = matrices.COARSER if stage.level == MINUTE else ()
            self._make([(schema.rollups[stage.level].name, began), *((schema.matrices[n].name, began) for n in levels)])
            done += self._until_done(partial(compaction.compact, stage=stage, began=began))
        return done

    def _until_done(self, work: Callable[[Connection, int], int]) -> int:
        """Repeat transactions until one has nothing to do; the sum of their results."""
        done, taken = 0, -1
        while taken:
            with self._transaction() as connection:
                taken = work(connection, self._cluster)
            done += taken
        return done

    def judge(self, settings: Regression, now: float) -> Judged:
        """Series of whole periods that have got worse."""
        with self._transaction() as connection:
            histories = regressions.read(connection, self._cluster, settings, now)
        return regressions.judge(histories, settings.period_seconds, now)

    def retain(self, now: float, settings: Archive = Archive()) -> int:  # noqa: B008 - frozen
        """Remove rows older than their retention; the number of partitions (PostgreSQL) or rows (SQLite). It returns
        soon: only a slice is removed; call it again until it returns 0."""
        removed = self._forget_positions(now) if now >= self._forget_at else 0
        for name, before in retention.limits(settings, now).items():
            with self._transaction() as connection:  # one per table: no one waits for two
                removed += retention.apply(connection, name, before)
        self._parts.clear()
        return removed

    def _forget_positions(self, now: float) -> int:
        """Remove positions of hosts that are in no stream any more."""
        self._forget_at = now + _FORGET_EVERY
        with self._transaction() as connection:
            done: int = connection.execute(_FORGET, {"cluster": self._cluster, "before": now - _FORGET_AFTER}).rowcount
        return done

    @property
    def _unsigned(self) -> int:
        return self._cluster % (1 << 64)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with told(self._url), self._engine.begin() as connection:
                check_version(connection)
                yield connection
        except Exception:
            self._parts.clear()
            raise

    @contextmanager
    def _storing(self, batch: Batch) -> Iterator[Connection]:
        """Transaction for writing a batch. Raises ArchiveRejected if it can never be written."""
        try:
            self._make_parts(batch)
            with self._transaction() as connection:
                yield connection
        except (ValueError, OverflowError, struct.error) as error:  # from the driver, before the server has seen it
            raise ArchiveRejected(f"a value cannot be stored: {error}") from error

    def _write(self, connection: Connection, batch: Batch) -> None:
        for name, rows in records.tables(batch, self._cluster):
            writing.upsert(connection, name, rows)
        matrices.write(connection, self._cluster, MINUTE, batch.minutes)

    def _advance(self, connection: Connection, advance: Advance) -> bool:
        """Advance a partition; its ended positions are removed. False if another commit came before."""
        values = {
            "cluster": self._cluster, "partition": advance.partition, "commit_id": signed(advance.commit_id),
            "entry": escape(advance.entry), "state": advance.state, "now": time.time(),
        }  # fmt: skip
        if advance.previous:
            done = connection.execute(_UPDATE, {**values, "previous": signed(advance.previous)})
        else:
            done = connection.execute(_INSERT, values)
        held = schema.positions.c
        for over in advance.forgotten if done.rowcount == 1 else ():
            connection.execute(
                delete(schema.positions).where(
                    held.cluster == self._unsigned, held.host == over.host,
                    held.resource_set == over.resource_set, held.epoch == over.epoch,
                )
            )  # fmt: skip
        return done.rowcount == 1

    def _make_parts(self, batch: Batch) -> None:
        self._make(
            {
                (table.name, one.minute)
                for one in batch.minutes
                for table in (schema.matrices.values() if one.late else [schema.matrices[MINUTE]])
            }
            | {("episodes", records.day_of(one.start)) for one in batch.episodes}
            | {("events", records.day_of(one.time)) for one in batch.events}
        )

    def _make(self, moments: Iterable[tuple[str, int]]) -> None:
        """Create the parts of tables that contain these moments, in a separate transaction, so that no lock is held
        while rows are written."""
        if self._engine.dialect.name != "postgresql":
            return
        parts = {(name, moment - moment % PARTITIONED[name].width) for name, moment in moments} - self._parts
        if parts:
            with self._transaction() as connection:
                for name, low in sorted(parts):
                    column, width = PARTITIONED[name]
                    connection.execute(_MAKE_PART, {"parent": name, "column": column, "width": width, "moment": low})
            self._parts |= parts
