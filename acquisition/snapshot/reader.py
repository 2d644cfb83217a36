"""Snapshot reader: one reading of the smoothed state over all shards.

There are three readings. ``coherent`` gives one tick for all rows of an interval: the newest
whose interval plus a grace time is over. A host without that tick is late or
down and has no values, never older ones. ``latest`` gives each row its own newest
tick, with its age. ``newest`` is ``latest`` for verdicts: a host whose clock is ahead is late.

::

    with SnapshotReader.connect() as reader:               # this machine's shards; else connect(["HOST:PORT"])
        snapshot = reader.coherent()
        for row in snapshot.rows(resource_set="processes", metric="cpu_ratio"):
            print(row.host, row.entity, row.mean, row.validity, row.age_seconds)
        table = snapshot.matrix("processes", "cpu_ratio")      # numpy arrays
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from acquisition.config import endpoints
from acquisition.config.loader import load
from acquisition.errors import FrameError
from acquisition.link.cluster import Batch, Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import parse_address
from acquisition.link.trust.credentials import Credentials
from acquisition.model import ticks
from acquisition.model.metric import resource_set_id
from acquisition.snapshot.reading import records
from acquisition.snapshot.reading.finishing import COHERENT, LATEST, NEWEST, Finisher
from acquisition.snapshot.reading.positions import PositionReader
from acquisition.snapshot.reading.records import Due, Naming, read_recent, read_records
from acquisition.snapshot.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.inputs import InputsTable, tables_of
from acquisition.snapshot.values.members import Member, Owner, Place
from acquisition.snapshot.values.recent import RecentTable
from acquisition.snapshot.values.states import CURRENT
from acquisition.snapshot.visibility.roster import RefillReader
from acquisition.snapshot.whole_reading import Shared, Takes, WholeReader
from acquisition.wire import keys, position
from acquisition.wire.layout import Layout

if TYPE_CHECKING:
    from acquisition.config.settings import Settings


class _Parts(NamedTuple):
    """Readers of the shards of one ``instance``; ``arrivals`` by the name of the resource set."""

    instance: str
    layout: Layout
    shared: Shared
    whole: WholeReader
    arrivals: dict[str, ArrivalReader]


@contextmanager
def paused() -> Iterator[None]:
    """Suspend collection of cyclic garbage until the end of the block, if it is on at all.

    A reading makes tens of thousands of objects, none of them in a cycle; after every few hundred new ones
    the collector would visit all young objects, and now and then everything in the program. Other
    threads may be in such a block as well: a caller that found collection on turns it on again.
    """
    was_on = gc.isenabled()
    if was_on:  # one that finds it off must not turn it off: another thread may just have turned it on again
        gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class SnapshotReader:
    """Reads snapshots and keeps the parts that do not change between them: connections, names.

    ``grace_seconds`` and ``down_after_seconds`` are as in the [snapshot] table. Not
    thread-safe: one reader per thread.
    """

    def __init__(
        self,
        cluster: Cluster,
        grace_seconds: float = 0.5,
        down_after_seconds: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.cluster = cluster
        self._grace = grace_seconds
        self._down_after = down_after_seconds
        self._clock = clock
        self._naming = Naming()
        self._parts: _Parts | None = None

    @classmethod
    def connect(
        cls,
        addresses: Sequence[str] = (),
        credentials: Credentials | None = None,
        timeout: float = 2.0,
        grace_seconds: float = 0.5,
        down_after_seconds: float = 10.0,
    ) -> Self:
        """A reader of the shards reached from any of ``addresses`` (HOST:PORT), by default of those used by all
        commands: the configured ones, else this machine's.

        Raises ValueError for an invalid address, ConfigError or NoInputError for a bad configuration.
        """
        if addresses:
            cluster = Cluster([parse_address(text) for text in addresses], credentials, timeout)
        else:
            shards = load().shards
            cluster = Cluster(endpoints.seeds(shards), credentials or endpoints.credentials(shards), timeout)
        return cls(cluster, grace_seconds, down_after_seconds)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """A reader for the configuration."""
        snapshot = settings.snapshot
        return cls(endpoints.connect(settings.shards), snapshot.grace_seconds, snapshot.down_after_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.cluster.close()

    def coherent(self, takes: Takes | None = None) -> Snapshot:
        """One tick for all rows of an interval, the newest whose grace time is over.

        ``takes`` narrows the reading to members it returns True for; the rest costs no more than its position.
        Raises ShardError, TemporaryError or PermissionRefused if no shard can be read, ConfigError
        if the shards hold no layout.
        """
        return self._read(COHERENT, takes)

    def latest(self, takes: Takes | None = None) -> Snapshot:
        """The newest tick of each row. Arguments and errors as of ``coherent``."""
        return self._read(LATEST, takes)

    def newest(self, takes: Takes | None = None) -> Snapshot:
        """As ``latest``, for comparison between hosts: one whose clock is ahead is late, since its tick number has no
        meaning. Arguments and errors as of ``coherent``."""
        return self._read(NEWEST, takes)

    def inputs(self, snapshot: Snapshot) -> dict[Owner, InputsTable]:
        """Decision inputs of a snapshot's blocks, of exactly their ticks, by (host id, resource set id), without
        reading: they are in the records of the blocks.

        Damaged ones, and those without configuration, are absent.
        """
        return tables_of(snapshot.blocks)

    def recent(self, owners: Sequence[Owner]) -> dict[Owner, RecentTable]:
        """The last 120 ticks of resource sets, by (host id, resource set id). Raises ShardError if no shard answers
        at all."""
        return read_recent(self.cluster, self._prepare().layout, owners)

    @paused()
    def arrivals(self, resource_set: str) -> Snapshot:
        """One resource set of those hosts with a new tick since the last call, each with its newest tick:
        a ``latest`` reading of these alone. A host is left out until a tick newer than the due one has arrived, and
        while its clock is ahead; other readings show which hosts are late, and why.

        Errors as of ``coherent``.
        """
        parts = self._prepare()
        if resource_set not in parts.arrivals:
            parts.arrivals[resource_set] = ArrivalReader(parts.layout, resource_set_id(resource_set))
        due = self._due(parts.layout)
        begun, now = parts.arrivals[resource_set].take(self.cluster, due), self._clock()
        errors = self._naming.name(self.cluster, begun, begun, now, whole=False)
        return Snapshot(LATEST, now, [block.at(now) for _, block in begun], errors, began=due.now)

    def due_tick(self, interval: float, now: float) -> int:
        """The newest tick of an interval that must have arrived at ``now``, by the reader's clock."""
        return Due(now, self._grace, self._prepare().layout.keep_ticks).tick(interval)

    def _read(self, reading: str, takes: Takes | None) -> Snapshot:
        parts = self._prepare()
        with paused():
            return parts.whole.read(reading, takes, self._due(parts.layout))

    def _due(self, layout: Layout) -> Due:
        return Due(self._clock(), self._grace, layout.keep_ticks)

    def _prepare(self) -> _Parts:
        if self._parts is None or self._parts.instance != self.cluster.instance:
            layout = read_layout(self.cluster)
            finisher = Finisher(self.cluster, layout, self._naming, self._clock, self._down_after)
            positions, refills = PositionReader(layout), RefillReader(layout)
            shared = Shared(self.cluster, self._clock, self._down_after, self._naming, positions, refills, finisher)
            self._parts = _Parts(self.cluster.instance, layout, shared, WholeReader(layout, shared), {})
        return self._parts


class _Held(NamedTuple):
    """Last state of a partition: its commit id, and its positions by field."""

    commit: bytes = b""
    positions: Mapping[bytes, bytes] = {}


class ArrivalReader:
    """Reads one resource set of all hosts repeatedly: the newest record of each, once it is committed.

    A coherent tick waits for the last host; this reading does not. A partition is read again only if its commit id
    has changed, and of its hosts only those with a new position. The id is read before the rest, so that the
    kept data are never older than it.
    """

    def __init__(self, layout: Layout, set_id: int) -> None:
        self._tags = layout.tags
        self._set_id = set_id
        self._commits = Batch([(keys.commit(tag), ("GET", keys.commit(tag))) for tag in layout.tags])
        self._held: dict[str, _Held] = {}

    def take(self, cluster: Cluster, due: Due) -> list[tuple[Member, Block]]:
        """Hosts with a new record that is not behind the due tick, each with its block, current, without names and
        age; at first all of them. Unreadable and damaged ones are left out. Raises ShardError if no shard
        is known."""
        commits = dict(zip(self._tags, cluster.ask(self._commits), strict=True))
        changed = {
            tag: commit
            for tag, commit in commits.items()
            if isinstance(commit, bytes) and commit != self._held.get(tag, _Held()).commit
        }
        replies = cluster.gather([(keys.applied(tag), ("HGETALL", keys.applied(tag))) for tag in changed])
        begun = [
            (member, block)
            for (tag, commit), reply in zip(changed.items(), replies, strict=True)
            for member, block in self._moved(tag, commit, reply)
            if not block.reason and block.tick >= due.tick(block.interval)
        ]
        slots = [(member, ticks.slot_of(block.tick, due.keep_ticks)) for member, block in begun]
        for (_, block), value in zip(begun, read_records(cluster, slots) if slots else (), strict=True):
            records.judge_coherent(block, value, block.tick, due)
        return [(member, block) for member, block in begun if block.state == CURRENT]

    def _moved(self, tag: str, commit: bytes, reply: Any) -> Iterator[tuple[Member, Block]]:
        """Members of a partition with a changed position."""
        if not isinstance(reply, list):
            return  # it is being moved to another shard, or its shard does not answer
        before = self._held.get(tag, _Held()).positions
        positions = dict(zip(reply[::2], reply[1::2], strict=True))
        self._held[tag] = _Held(commit, positions)
        for field, record in positions.items():
            named = keys.parse_member(field) if before.get(field) != record else None
            if named is None or named[1] != self._set_id:
                continue
            member = Member(tag, *named, keys.smoothed(tag, *named, 0)[:-1])
            try:
                yield member, records.begin(member, Place(position.decode(record), None))
            except FrameError:
                continue
