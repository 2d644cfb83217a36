"""Snapshots: one reading of the smoothed state of all hosts over all shards.

There are two readings. ``coherent`` gives one tick for all rows of an interval: the newest
whose interval plus a grace time is over. A host that has not that tick is late or
down and has no values, never older ones. ``latest`` gives each row its own newest
tick, with its age.

::

    with SnapshotReader.connect(["127.0.0.1:7600"]) as reader:
        snapshot = reader.coherent()
        for row in snapshot.rows(resource_set="processes", metric="cpu_ratio"):
            print(row.host, row.entity, row.mean, row.validity, row.age_seconds)
        table = snapshot.matrix("processes", "cpu_ratio")      # numpy arrays
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from acquisition.link import endpoints
from acquisition.link.cluster import Cluster, Layout, read_layout
from acquisition.link.resp import Credentials, parse_address
from acquisition.model import ticks
from acquisition.snapshot import judgement
from acquisition.snapshot.block import CURRENT, Block
from acquisition.snapshot.claims import ClaimIndex, claims_of
from acquisition.snapshot.inputs import InputsTable, Owner, RecentTable, read_inputs, read_recent
from acquisition.snapshot.matrix import Matrix, matrix_of
from acquisition.snapshot.names import NamesCache
from acquisition.snapshot.placement import Placements, settle
from acquisition.snapshot.rows import Row, rows_of
from acquisition.snapshot.selection import Patterns, Selection
from acquisition.snapshot.shard_reading import Member, PositionReader, read_heads, read_names, read_records
from acquisition.wire.position import SHEDS

if TYPE_CHECKING:
    from acquisition.config.settings import Settings

#: Whether the values of a (host id, resource set id) are wanted.
Takes = Callable[[int, int], bool]

COHERENT = "coherent"
LATEST = "latest"


class Totals(NamedTuple):
    """The books of the filter over all hosts; samples unless said otherwise (see acquisition.wire.position)."""

    before: int = 0
    applied: int = 0
    invalid: int = 0
    lost: int = 0
    frames: int = 0
    lost_frames: int = 0
    duplicates: int = 0
    refused: int = 0
    gaps: int = 0  #: of unknown size (acquisition.snapshot.quality)
    shedding: int = 0  #: resource sets whose probe sheds frames now
    lossy: int = 0  #: resource sets of which something was lost in this epoch


class Snapshot:
    """What one reading found. ``blocks`` is ordered by host and resource set.

    ``now`` is the reader's clock when everything had been read; ``errors`` are what could not be
    read: shards, tables, positions; ``damaged`` counts records that are in the shards but are none.
    ``unread`` are the blocks that a narrower reading did not take: position and age, but no values, no verdict.
    ``placements`` says on which one host each VM is, by what the blocks know: a reading that is narrowed
    to some hosts does not know what the others report.
    """

    def __init__(
        self,
        reading: str,
        now: float,
        blocks: Sequence[Block],
        errors: Sequence[str],
        unread: Sequence[Block] = (),
        placements: Placements | None = None,
    ) -> None:
        self.reading = reading
        self.now = now
        self.blocks = tuple(sorted(blocks, key=lambda block: (block.host, block.resource_set)))
        self.errors = tuple(errors)
        self.unread = tuple(unread)
        self.damaged = sum(1 for block in blocks if block.damage)
        self.placements = Placements.of(self.blocks) if placements is None else placements

    def select(
        self, host: Patterns = (), resource_set: Patterns = (), entity: Patterns = (), metric: Patterns = ()
    ) -> Selection:
        """A selection; each argument is one pattern or several, of names (``*`` and ``?``) or hex ids."""
        return Selection.of(host, resource_set, entity, metric)

    def rows(
        self, host: Patterns = (), resource_set: Patterns = (), entity: Patterns = (), metric: Patterns = ()
    ) -> Iterator[Row]:
        """Plain objects, one for each sample that the patterns select (all, without any)."""
        return rows_of(self.blocks, Selection.of(host, resource_set, entity, metric), self.placements)

    def matrix(self, resource_set: str, metric: str, host: Patterns = (), entity: Patterns = ()) -> Matrix:
        """One metric of all entities of a resource set as numpy arrays."""
        return matrix_of(self.blocks, Selection.of(host, resource_set, entity, ()), metric)

    @property
    def totals(self) -> Totals:
        """The sums of all positions."""
        rows = [
            (*position[6:14], position.gaps, bool(position.flags & SHEDS), position.lost > 0)
            for position in (block.position for block in (*self.blocks, *self.unread))
            if position is not None
        ]
        return Totals(*(sum(column) for column in zip(*rows, strict=True))) if rows else Totals()

    @property
    def late(self) -> tuple[Block, ...]:
        """The blocks that are not current."""
        return tuple(block for block in self.blocks if block.state != CURRENT)


class SnapshotReader:
    """Reads snapshots and keeps what does not change between them: connections, names.

    ``grace_seconds`` and ``down_after_seconds`` are those of the [snapshot] table. Not
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
        self._names = NamesCache()
        self._claims = ClaimIndex()
        self._layout: Layout | None = None
        self._positions: PositionReader | None = None

    @classmethod
    def connect(
        cls,
        addresses: Sequence[str],
        credentials: Credentials | None = None,
        timeout: float = 2.0,
        grace_seconds: float = 0.5,
        down_after_seconds: float = 10.0,
    ) -> Self:
        """A reader of the shards that any of ``HOST:PORT`` leads to."""
        cluster = Cluster([parse_address(text) for text in addresses], credentials, timeout)
        return cls(cluster, grace_seconds, down_after_seconds)

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """A reader as the configuration says."""
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

        ``takes`` narrows the reading to what it answers True for; the rest costs no more than its position.
        Raises ShardError, TemporaryError or PermissionRefused when no shard can be read, ConfigError
        when the shards hold no layout.
        """
        return self._read(COHERENT, takes)

    def latest(self, takes: Takes | None = None) -> Snapshot:
        """Every row's own newest tick. Arguments and errors as of ``coherent``."""
        return self._read(LATEST, takes)

    def inputs(self, snapshot: Snapshot) -> dict[Owner, InputsTable]:
        """The decision inputs of a snapshot's blocks, of exactly their ticks, by (host id, resource set id).

        Absent are those that cannot be read, and those of which nothing is configured. Raises ShardError when
        no shard answers at all.
        """
        return read_inputs(self.cluster, self._prepare()[0], snapshot.blocks)

    def recent(self, owners: Sequence[Owner]) -> dict[Owner, RecentTable]:
        """The last 120 ticks of resource sets, by (host id, resource set id). Raises as ``inputs``."""
        return read_recent(self.cluster, self._prepare()[0], owners)

    def _read(self, reading: str, takes: Takes | None) -> Snapshot:
        layout, positions = self._prepare()
        found, errors = positions.read(self.cluster)
        due = judgement.Due(self._clock(), self._grace, layout.keep_ticks)
        begun = [(member, judgement.begin(member, place)) for member, place in found.items()]
        taken = [pair for pair in begun if takes is None or takes(pair[0].host, pair[0].resource_set)]
        blocks = [block for _, block in taken]
        wanted = []
        for member, block in taken:
            if not block.reason:
                wanted.append((block, member, due.tick(block.interval) if reading == COHERENT else block.tick))
        self._take_records(wanted, reading, due)
        self._take_heads(wanted, layout.keep_ticks)
        now = self._clock()
        messages = [str(error) for error in errors] + self._take_names(begun, taken, now)
        messages += [block.reason for block in blocks if block.unreachable]
        judgement.set_ages([block for _, block in begun], now, self._down_after)
        unread = [] if takes is None else [block for _, block in begun if not takes(block.host_id, block.set_id)]
        placements = self._place(begun, taken, layout.keep_ticks)
        return Snapshot(reading, now, blocks, list(dict.fromkeys(messages)), unread, placements)

    def _prepare(self) -> tuple[Layout, PositionReader]:
        if self._layout is None or self._positions is None:
            self._layout = read_layout(self.cluster)
            self._positions = PositionReader(self._layout)
        return self._layout, self._positions

    def _take_records(self, wanted: list[tuple[Block, Member, int]], reading: str, due: judgement.Due) -> None:
        slots = [(member, ticks.slot_of(tick, due.keep_ticks)) for _, member, tick in wanted]
        judge = judgement.judge_coherent if reading == COHERENT else judgement.judge_latest
        for (block, _, tick), value in zip(wanted, read_records(self.cluster, slots), strict=True):
            judge(block, value, tick, due)

    def _take_heads(self, wanted: list[tuple[Block, Member, int]], keep_ticks: int) -> None:
        """Ask who the rows of late blocks were, and when they were last heard of."""
        late = [(block, member) for block, member, _ in wanted if not block.has_values and not block.unreachable]
        slots = [(member, ticks.slot_of(block.tick, keep_ticks)) for block, member in late]
        for (block, _), head in zip(late, read_heads(self.cluster, slots), strict=True):
            if head is not None and head[0].tick == block.tick:
                block.take_rows(*head)
                judgement.explain_delay(block)

    def _take_names(
        self, begun: list[tuple[Member, Block]], taken: list[tuple[Member, Block]], now: float
    ) -> list[str]:
        """Name all blocks; what has no names yet, or old ones, is asked for if it is taken."""
        wanted = [
            member
            for member, block in taken
            if self._names.wanted(
                member.host, member.resource_set, block.raw_ids, block.schema if block.head else None, now
            )
        ]
        errors = []
        for member, value in zip(wanted, read_names(self.cluster, wanted) if wanted else (), strict=True):
            if value is None or isinstance(value, bytes):
                error = self._names.put(member.host, member.resource_set, value, now)
                errors += [f"names of host {member.host:016x}: {error}"] if error else []
        self._names.forget({(member.host, member.resource_set) for member, _ in begun})
        for _, block in begun:
            names = self._names.get(block.host_id, block.set_id)
            block.use_names(names, self._names.set_name(block.set_id))
        return errors

    def _place(
        self, begun: list[tuple[Member, Block]], taken: list[tuple[Member, Block]], keep_ticks: int
    ) -> Placements:
        """Settle where the VMs are that several hosts report; the others are where they are."""
        present = [(member.host, member.resource_set) for member, _ in begun]
        contested = self._claims.contested([block for _, block in taken], present)
        concerned = {key for where in contested.values() for key in where}
        silent = [
            (block, member)
            for member, block in taken
            if (block.host_id, block.set_id) in concerned and not block.has_values and block.head is not None
        ]
        slots = [(member, ticks.slot_of(block.tick, keep_ticks)) for block, member in silent]
        for (block, _), value in zip(silent, read_records(self.cluster, slots) if slots else (), strict=True):
            judgement.remember(block, value)
        places = {vm: settle(vm, claims_of(vm, where)) for vm, where in contested.items()}
        return Placements([block for _, block in taken], places)
