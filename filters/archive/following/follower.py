"""Follower: reads raw streams once a second and commits them to the database.

It claims in the shards the entries that it still needs. One round trip per shard and second; the database is called
in a separate thread (``executor``). While the database accepts nothing, due data waits and nothing more is read: the
streams hold it, as far back as they reach. Neither probes nor filters are affected.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from acquisition import log
from acquisition.errors import FrameError, ShardpulseError
from acquisition.link.cluster import Cluster, Command
from acquisition.log import SHARDS, TroubleLog
from acquisition.wire import keys
from acquisition.wire.layout import Layout
from acquisition.wire.signature import Verifier
from acquisition.wire.stream_id import is_before, parse
from filters.archive.database.errors import ArchiveError, ArchiveRejected, ArchiveUnavailable
from filters.archive.database.store import Store
from filters.archive.following import claims, sifting
from filters.archive.following.entry_ids import START
from filters.archive.following.executor import Executor
from filters.archive.following.known_sets import Counts
from filters.archive.following.leases import Leases
from filters.archive.following.partition import Partition, Rules
from filters.archive.following.raw_streams import RawStreams
from filters.archive.following.witness import Witness
from filters.archive.minutes.gathering import Whereabouts, together
from filters.archive.minutes.values import Batch, Cursor, MinuteMatrix, Position

LOG = log.category("archive.follower")
_EVERY = 1.0  #: seconds between two reads
_SOON = 0.05  #: seconds between checks for a result from the database
_RETRY, _LONGEST_RETRY = 0.5, 10.0
_PATIENCE = 5.0  #: seconds allowed for a commit before reading waits for it
_FINISH_SECONDS = 10.0  #: for the database to accept the closed data at the end
DATABASE = "database"  #: trouble: the database does not answer properly


class Limits(NamedTuple):
    """``claim`` in seconds; ``read_bytes``: approximate size of one round of reads, all partitions together;
    ``commit_samples``: approximate number of samples in one transaction, which is made in memory.
    ``verifier`` None: signatures are not checked."""

    rules: Rules = Rules()
    claim: float = 900.0
    read_bytes: int = 8 << 20
    commit_samples: int = 60 << 20
    verifier: Verifier | None = None


class Follower:
    """``turn`` does the due work; the leases determine the partitions that it follows."""

    def __init__(
        self,
        cluster: Cluster,
        layout: Layout,
        store: Store,
        leases: Leases,
        log: TroubleLog,
        limits: Limits | None = None,
    ) -> None:
        self._cluster, self._layout, self._leases, self._log = cluster, layout, leases, log
        self._executor = Executor(store)
        self._limits = limits or Limits()
        self._followed: dict[int, Partition] = {}
        self._streams = RawStreams(cluster, self._followed, self._limits.read_bytes, log)
        self._durable: dict[int, bytes] = {}  #: the oldest entry needed according to durable data
        self._whereabouts = Whereabouts()
        self._witness = Witness(cluster)
        self._pending: Batch | None = None
        self._retry_at, self._retry = 0.0, _RETRY
        self._claims_at = 0.0
        self._trouble = ""  #: reason for waiting for the database
        names = ("commits", "minutes", "late", "overtaken", "went_back", "gap_events", "put_aside")
        self._counters = dict.fromkeys(names, 0)

    @property
    def counters(self) -> dict[str, int]:
        """Counts of the work since the start, by name, and the waiting times of entries."""
        median, longest = self._streams.applied_after
        applied = {"applied_after_ms": median, "applied_after_most_ms": longest}
        return {"samples": self._streams.samples, **self._counters, "errors": self._log.count, **applied}

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of all partitions."""
        return self._layout.tags

    @property
    def partitions(self) -> set[int]:
        """Partitions that it follows."""
        return set(self._followed)

    @property
    def clock(self) -> float | None:
        """The shards' clock, as in ``RawStreams``; thread-safe."""
        return self._streams.clock

    @property
    def counts(self) -> Counts:
        """The books of all partitions together."""
        counts = [partition.counts for partition in self._followed.values()]
        return Counts(*(sum(column) for column in zip(*counts, strict=True))) if counts else Counts(0, 0, 0)

    # ---------------------------------------------------------------- the loop

    def turn(self) -> float:
        """One round; returns the seconds until the next one is due. Raises ArchiveError if waiting would not
        help."""
        began = time.monotonic()
        more = False
        try:
            self._hear(0.0)
            if self._leases.turn(began):
                self._let_go()
            if self._executor.idle and began >= self._retry_at:
                self._ask()
            if self._may_read(began):
                more = self._streams.read()
                self._close_what_is_due(finish=False)
            if began >= self._claims_at:
                self._streams.look_back()
                self._witness.look(self._followed, self._streams.clock or time.time())
                self._claim()
            self._tell()
        except ShardpulseError as error:
            self._streams.doubt_all()
            self._log.fails(SHARDS, error)
        if LOG.debugs:
            LOG.debug(
                "round", partitions=len(self._followed), samples=self._streams.samples, more=more,
                seconds=time.monotonic() - began,
            )  # fmt: skip
        if more:
            return 0.0
        due = began + _EVERY - time.monotonic()
        return max(_SOON, due if self._executor.idle else min(_SOON, due))

    def leave(self) -> None:
        """Release all followed partitions. Raises ShardError."""
        self._leases.leave()

    def finish(self) -> None:
        """Close and commit the open minutes, once; later values for them are merged. Raises ArchiveError."""
        deadline = time.monotonic() + _FINISH_SECONDS
        more = True
        while more or self._pending is not None or self._seeking:
            if self._pending is None and self._executor.idle and not self._seeking:  # it may be reading cursors
                more = self._streams.read()
                more |= self._close_what_is_due(finish=not more)
            elif self._executor.idle:
                self._ask()
            self._hear(_SOON)
            if time.monotonic() > deadline:
                raise ArchiveUnavailable(f"the database did not accept all data within {_FINISH_SECONDS:g} s")

    def _tell(self) -> None:
        if self._log.calm(SHARDS, 2 * _EVERY):
            self._log.over(SHARDS, "shards are responding again")
        if self._executor.waited > _PATIENCE:
            self._trouble = "the database does not answer"
            self._log.lasts(DATABASE, f"{self._trouble}; unread frames stay in the streams", "hangs")

    # ---------------------------------------------------------------- the database

    def _ask(self) -> None:
        """Start the next database call: to write pending data, to find the positions of partitions new here, or
        what is known of new resource sets."""
        if self._pending is not None:
            self._executor.ask(partial(_write, self._pending), self._written)
        elif fresh := self._leases.held - self._followed.keys():
            published = claims.published(self._cluster, self._layout, fresh)
            self._executor.ask(lambda store: store.cursors(fresh), partial(self._loaded, published))
        elif seeking := self._seeking:
            wanted = frozenset().union(*(partition.sought for partition in seeking))
            self._executor.ask(lambda store: store.positions(wanted), partial(self._recalled, seeking))

    @property
    def _seeking(self) -> list[Partition]:
        """Partitions that wait for data from the database."""
        return [partition for partition in self._followed.values() if partition.sought]

    def _recalled(self, seeking: list[Partition], found: list[Position]) -> None:
        for partition in seeking:
            partition.recall([position for position in found if position[:2] in partition.sought])

    def _hear(self, patience: float) -> None:
        """Check for a result of the database. Raises ArchiveError if waiting would not help."""
        try:
            self._executor.turn(patience)
        except ArchiveRejected as error:
            batch = self._pending
            assert batch is not None
            self._log.tell(f"{error}; searching for the rows that cause it", "rejected")
            self._executor.ask(lambda store: sifting.refused(batch, store.accepts), partial(self._sifted, str(error)))
        except ArchiveError as error:
            if not error.passing:
                raise
            self._log.lasts(DATABASE, f"{error}; waiting, unread frames stay in the streams", type(error).__name__)
            self._trouble = str(error)
            self._wait()

    def _wait(self) -> None:
        self._retry_at = time.monotonic() + self._retry
        self._retry = min(_LONGEST_RETRY, 2 * self._retry)

    def _let_go(self) -> None:
        """Stop following partitions that others now hold. Their pending data is kept, for a batch is all or nothing."""
        for number in self._followed.keys() - self._leases.held:
            if LOG.informs:
                LOG.info("no longer following", partition=number)
            del self._followed[number]

    def _loaded(self, published: Mapping[int, bytes], cursors: Mapping[int, Cursor]) -> None:
        """Continue from the position in the database; this archiver and all others together were at ``published``."""
        for number in sorted(cursors.keys() & self._leases.held):
            partition = Partition(
                number, self._layout.partitions, self._limits.rules, self._whereabouts, self._limits.verifier
            )
            partition.resume(cursors[number])
            others = published.get(number, START) if partition.commit_id else START
            known = max(self._durable.get(number, START), others, key=parse)
            if is_before(partition.entry, known) and partition.note_return(known):
                self._log.tell("the database was restored to an earlier state: resuming from there", "went back")
                self._counters["went_back"] += 1
            if LOG.informs:
                LOG.info("follows", partition=number, entry=partition.entry)
            self._followed[number] = partition
            self._durable[number] = partition.entry
            self._streams.begin(number)
        self._claims_at, self._trouble = 0.0, ""

    def _written(self, durable: bool) -> None:
        batch, self._pending = self._pending, None
        assert batch is not None
        if not durable:
            self._counters["overtaken"] += 1
            self._log.tell("the database position has changed: resuming from there", "overtaken")
            for advance in batch.advances:
                self._followed.pop(advance.partition, None)
            return
        for advance in batch.advances:
            if advance.partition in self._followed:
                self._followed[advance.partition].written()
        self._durable.update((advance.partition, advance.entry.encode()) for advance in batch.advances)
        self._retry, self._trouble = _RETRY, ""
        self._log.over(DATABASE, "database commits succeed again")
        self._counters["commits"] += 1
        self._counters["minutes"] += len(batch.minutes)
        self._counters["late"] += sum(minute.late for minute in batch.minutes)
        self._counters["gap_events"] += sum(event.kind == "gap" for event in batch.events)
        self._claim()

    def _sifted(self, reason: str, rows: list[Any]) -> None:
        """Continue without the rows that cannot be stored, and report them."""
        assert self._pending is not None
        if not rows:  # the error has passed, or several rows cause it together
            self._wait()
        for row in rows:
            if isinstance(row, MinuteMatrix):
                number = keys.partition_of(row.series.host, self._layout.partitions)
                if number in self._followed:
                    self._followed[number].refuse(row)
        self._counters["put_aside"] += len(rows)
        self._pending = sifting.without(self._pending, rows, reason)

    # ---------------------------------------------------------------- reading

    def _may_read(self, now: float) -> bool:
        """Whether to read: for a moment while a commit is in progress, not while commits fail."""
        if not self._followed or now < self._retry_at:
            return False
        return self._pending is None or (self._retry == _RETRY and self._executor.waited < _PATIENCE)

    # ---------------------------------------------------------------- closing

    def _close_what_is_due(self, finish: bool) -> bool:
        """Close finished minutes of as many partitions as fit in one transaction; returns whether some did not fit."""
        if self._pending is not None or not self._executor.idle:
            return False
        due, samples, left = [], 0, False
        for number, partition in self._followed.items():
            clock = self._streams.clocks.get(number)
            if samples >= self._limits.commit_samples:
                left = True
                break
            if clock is not None and (finish or partition.due(clock.until)):
                due.append(number)
                samples += partition.counts.open
        if due:
            self._name(due)
            self._pending = together([self._followed[n].close(self._streams.clocks[n].until, finish) for n in due])
            self._ask()
        return left

    def _name(self, numbers: list[int]) -> None:
        """Request from the filter the names of sets with a table sent before reading began."""
        wanted = [(number, *key) for number in numbers for key in self._followed[number].nameless()]
        commands: list[Command] = []
        for number, host, resource_set in wanted:
            name = keys.names(self._followed[number].tag, host, resource_set)
            commands.append((name, ("GET", name)))
        for (number, host, resource_set), reply in zip(wanted, self._cluster.gather(commands), strict=True):
            if isinstance(reply, bytes):
                try:
                    self._followed[number].learn(host, resource_set, reply)
                except FrameError as error:
                    self._log.tell(f"damaged table of the filter: {error}", "table")

    def _claim(self) -> None:
        """Claim in the shards the entries that are still needed, according to durable data."""
        self._claims_at = time.monotonic() + claims.EVERY
        # if an archiver dies before reporting that the database went back, the next one does it
        told = [one for one in self._followed.values() if self._trouble or not one.returning]
        made = claims.commands(told, self._streams.clocks, self._durable, self._limits.claim, self._trouble)
        self._cluster.gather(made)


def _write(batch: Batch, store: Store) -> bool:
    """Whether a batch is durable, possibly by an earlier attempt with a lost reply."""
    began = time.monotonic()
    written = store.commit(batch)
    if LOG.informs:
        rows = {name: len(part) for name, part in batch._asdict().items() if part}
        LOG.info("batch", written=written, seconds=time.monotonic() - began, **rows)
    if written:
        return True
    cursors = store.cursors([advance.partition for advance in batch.advances])
    return all(cursors[advance.partition].commit_id == advance.commit_id for advance in batch.advances)
