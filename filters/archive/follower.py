"""Follows the raw streams into the database: reads once a second, commits what is due, claims what it still needs.

One thread and one round trip per shard and second. While the database takes nothing, what is due waits and nothing more
is read: the streams hold it, as far as they reach back. Neither probes nor filters notice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from acquisition.errors import FrameError, ShardpulseError
from acquisition.link.cluster import Cluster, Command
from acquisition.link.resp import Address, ReplyError, error_for
from acquisition.snapshot.registered import ARCHIVE
from acquisition.trouble_log import SHARDS, TroubleLog
from acquisition.wire import keys, readers
from acquisition.wire.layout import Layout
from acquisition.wire.readers import Reader
from acquisition.wire.stream_id import is_before, parse
from filters.archive.errors import ArchiveError
from filters.archive.leases import Leases
from filters.archive.partition import Counts, Partition, Rules, before, together
from filters.archive.store import Store
from filters.archive.values import Batch

_EVERY = 1.0  #: seconds between two reads
_CLAIMS_EVERY = 5.0
_DAY_MS = 86_400_000
_FRAME_BYTES = 8192  #: what an entry is taken to weigh before any was seen
_MOST_ENTRIES = 2000
_RETRY, _LONGEST_RETRY = 0.5, 10.0
DATABASE = "database"  #: the trouble that the database does not answer as it should


class Limits(NamedTuple):
    """``claim`` in seconds; ``read_bytes`` is what one round reads, of all partitions together: some, not exactly."""

    rules: Rules = Rules()
    claim: float = 900.0
    read_bytes: int = 8 << 20


class Follower:
    """``turn`` does what is due; the leases say which partitions it follows."""

    def __init__(
        self,
        cluster: Cluster,
        layout: Layout,
        store: Store,
        leases: Leases,
        log: TroubleLog,
        limits: Limits | None = None,
    ) -> None:
        self._cluster, self._layout, self._store, self._leases, self._log = cluster, layout, store, leases, log
        self._limits = limits or Limits()
        self._followed: dict[int, Partition] = {}
        self._clocks: dict[int, int] = {}  #: milliseconds, of the shard, as far as a partition was read
        self._asked: dict[int, tuple[int, float]] = {}  #: milliseconds of the shard at CLOCK_MONOTONIC
        self._durable: dict[int, bytes] = {}  #: the oldest entry that is needed by what is durable
        self._idle: set[int] = set()  #: those in which nothing had come
        self._places: dict[int, Address | None] = {}
        self._doubtful: set[int] = set()
        self._host_of: dict[str, int] = {}
        self._pending: Batch | None = None
        self._retry_at, self._retry = 0.0, _RETRY
        self._claims_at = 0.0
        self._bytes = _FRAME_BYTES * 1.0  #: of an entry, on average
        self._counters = dict.fromkeys(("samples", "commits", "minutes", "late", "overtaken", "gap_events"), 0)

    @property
    def counters(self) -> dict[str, int]:
        """What was done since the start, by name."""
        return {**self._counters, "errors": self._log.count}

    @property
    def partitions(self) -> set[int]:
        """Those that it follows."""
        return set(self._followed)

    @property
    def counts(self) -> Counts:
        """The books of all partitions together."""
        counts = [partition.counts for partition in self._followed.values()]
        return Counts(*(sum(column) for column in zip(*counts, strict=True))) if counts else Counts(0, 0, 0)

    # ---------------------------------------------------------------- the loop

    def run(self, stopped: Callable[[], bool], sleep: Callable[[float], object] = time.sleep) -> None:
        """Until ``stopped()``."""
        while not stopped():
            sleep(self.turn())

    def turn(self) -> float:
        """One round; answers the seconds after which the next one is due. Raises ArchiveError where waiting would not
        help."""
        began = time.monotonic()
        more = False
        try:
            if self._leases.turn(began):
                self._follow_leases()
            if self._pending is not None and began >= self._retry_at:
                self._commit()
            if self._pending is None and self._followed and began >= self._retry_at:
                more = self._read()
                self._close_what_is_due(finish=False)
            if began >= self._claims_at:
                self._look_back()
                self._claim()
            self._tell()
        except ArchiveError as error:
            self._postpone(error)
        except ShardpulseError as error:
            self._doubtful.update(self._followed)
            self._log.fails(SHARDS, error)
        return 0.0 if more else max(0.05, began + _EVERY - time.monotonic())

    def finish(self) -> None:
        """Close and commit the minutes that are open, once; what comes of them later is merged. Raises ArchiveError."""
        while self._pending is None and self._read():
            self._close_what_is_due(finish=False)
        if self._pending is None:
            self._close_what_is_due(finish=True)
        if self._pending is not None:
            self._commit()

    def _postpone(self, error: ArchiveError) -> None:
        if not error.passing:
            raise error
        self._log.lasts(DATABASE, f"{error}; waiting, the streams keep what is not read", type(error).__name__)
        self._retry_at = time.monotonic() + self._retry
        self._retry = min(_LONGEST_RETRY, 2 * self._retry)

    def _tell(self) -> None:
        if self._log.calm(SHARDS, 2 * _EVERY):
            self._log.over(SHARDS, "the shards answer again")

    # ---------------------------------------------------------------- partitions

    def _follow_leases(self) -> None:
        for number in self._followed.keys() - self._leases.held:
            self._drop(number)
        fresh = self._leases.held - self._followed.keys()
        if fresh and time.monotonic() >= self._retry_at:
            self._load(fresh)
            self._claims_at = 0.0

    def _drop(self, number: int) -> None:
        """Stop following; what is pending of others goes on, for a batch is all or nothing."""
        del self._followed[number]
        if self._pending is not None and any(advance.partition == number for advance in self._pending.advances):
            self._reload([advance.partition for advance in self._pending.advances])

    def _load(self, numbers: set[int] | list[int]) -> None:
        """Go on where the database says that it is."""
        cursors = self._store.cursors(numbers)
        for number in sorted(numbers):
            partition = Partition(number, self._layout.partitions, self._limits.rules, self._host_of)
            partition.resume(cursors[number])
            self._followed[number] = partition
            self._durable[number] = partition.entry
            self._clocks.pop(number, None)

    def _reload(self, numbers: list[int]) -> None:
        self._pending = None
        self._load([number for number in numbers if number in self._followed])

    # ---------------------------------------------------------------- reading

    def _read(self) -> bool:
        """Read what has come in each partition; whether there is more."""
        numbers = sorted(self._followed)
        count = max(1, min(_MOST_ENTRIES, round(self._limits.read_bytes / len(numbers) / self._bytes)))
        self._doubt_those_that_moved(numbers)
        commands: list[Command] = []
        for number in numbers:
            name = keys.raw(self._followed[number].tag)
            read = self._followed[number].read
            commands += [(name, ("XREAD", "COUNT", count, "STREAMS", name, read)), (name, ("TIME",))]
        replies = self._cluster.gather(commands)
        more = False
        for place, number in enumerate(numbers):
            found, clock = replies[2 * place : 2 * place + 2]
            if self._refused(number, found) or self._refused(number, clock):
                continue
            entries = found[0][1] if found else []
            more |= len(entries) == count
            self._take(number, entries, count, readers.milliseconds(clock))
        return more

    def _doubt_those_that_moved(self, numbers: list[int]) -> None:
        """A partition that lies elsewhere, or whose shard was away, is read again from before the cursor: what is there
        now may be another history."""
        for number in numbers:
            place = self._cluster.known_owner(keys.raw(self._followed[number].tag))
            if number in self._doubtful or self._places.setdefault(number, place) != place:
                self._followed[number].rewind()
                self._places[number] = place
        self._doubtful.clear()

    def _refused(self, number: int, reply: Any) -> bool:
        if not isinstance(reply, ReplyError | ShardpulseError):
            return False
        error = error_for(reply) if isinstance(reply, ReplyError) else reply
        self._doubtful.add(number)
        self._log.fails(SHARDS, error)
        return True

    def _take(self, number: int, entries: list[Any], count: int, clock: int) -> None:
        partition = self._followed[number]
        self._counters["samples"] += partition.take(entries)
        (self._idle.discard if entries else self._idle.add)(number)
        self._asked[number] = clock, time.monotonic()
        if len(entries) == count:
            clock = min(clock, parse(entries[-1][0])[0])
        self._clocks[number] = clock
        if entries:
            size = sum([len(fields[1]) for _, fields in entries if isinstance(fields, list) and len(fields) > 1])
            self._bytes += (max(64.0, size / len(entries)) - self._bytes) / 16

    def _look_back(self) -> None:
        """Streams in which nothing has come: one whose newest entry is older than what was read is another one."""
        commands: list[Command] = []
        numbers = sorted(self._idle & self._followed.keys())
        for number in numbers:
            name = keys.raw(self._followed[number].tag)
            commands.append((name, ("XREVRANGE", name, "+", "-", "COUNT", 1)))
        for number, reply in zip(numbers, self._cluster.gather(commands), strict=True):
            partition = self._followed[number]
            if self._refused(number, reply) or not parse(partition.read)[0]:
                continue
            if not reply or is_before(reply[0][0], partition.read):
                partition.begin_anew()

    # ---------------------------------------------------------------- committing

    def _close_what_is_due(self, finish: bool) -> None:
        due = [
            number
            for number, partition in self._followed.items()
            if number in self._clocks and (finish or partition.due(self._clocks[number]))
        ]
        if not due:
            return
        self._name(due)
        self._pending = together([self._followed[number].close(self._clocks[number], finish) for number in due])
        self._commit()

    def _name(self, numbers: list[int]) -> None:
        """Ask the filter for the names of sets whose table was sent before we read."""
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
                    self._log.tell(f"a table that the filter keeps is damaged: {error}", "table")

    def _commit(self) -> None:
        """Write what is pending. Raises ArchiveError; whether it is durable then, the next attempt finds out."""
        batch = self._pending
        assert batch is not None
        numbers = [advance.partition for advance in batch.advances]
        if not self._store.commit(batch):
            cursors = self._store.cursors(numbers)
            if any(cursors[advance.partition].commit_id != advance.commit_id for advance in batch.advances):
                self._counters["overtaken"] += 1
                self._log.tell("another archiver has committed: going on where it is", "overtaken")
                self._reload(numbers)
                return
        self._pending = None
        self._durable.update((advance.partition, advance.entry.encode()) for advance in batch.advances)
        self._retry = _RETRY
        self._log.over(DATABASE, "the database takes commits again")
        self._counters["commits"] += 1
        self._counters["minutes"] += len(batch.minutes)
        self._counters["late"] += sum(minute.late for minute in batch.minutes)
        self._counters["gap_events"] += sum(event.kind == "gap" for event in batch.events)
        self._claim()

    def _claim(self) -> None:
        """Say in the shards what is still needed, by what is durable."""
        self._claims_at = time.monotonic() + _CLAIMS_EVERY
        commands: list[Command] = []
        for number, partition in self._followed.items():
            if number in self._clocks:
                clock, asked = self._asked[number]
                expires = clock + round(1000 * (self._claims_at - asked + self._limits.claim))
                cursor = before(self._durable[number])
                claim = Reader(cursor, expires, self._clocks[number], *partition.counts)
                name = keys.readers(partition.tag)
                commands += [
                    (name, ("HSET", name, ARCHIVE, readers.encode(claim))),
                    (name, ("PEXPIRE", name, _DAY_MS)),
                ]
        self._cluster.gather(commands)
