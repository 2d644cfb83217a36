"""Snapshots: one reading of the smoothed state of all hosts over all shards.

There are two readings. ``coherent`` gives one tick for all rows of an interval: the newest
whose interval plus a grace time is over. A host that has not that tick is late or
down and has no values, never older ones. ``latest`` gives each row its own newest
tick, with its age.

::

    with SnapshotReader.connect() as reader:               # this machine's shards; else connect(["HOST:PORT"])
        snapshot = reader.coherent()
        for row in snapshot.rows(resource_set="processes", metric="cpu_ratio"):
            print(row.host, row.entity, row.mean, row.validity, row.age_seconds)
        table = snapshot.matrix("processes", "cpu_ratio")      # numpy arrays
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np

from acquisition.config import endpoints
from acquisition.config.loader import load
from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster, read_layout
from acquisition.link.credentials import Credentials
from acquisition.link.resp import parse_address
from acquisition.model import ticks
from acquisition.model.metric import resource_set_id
from acquisition.snapshot import collector, judgement, sight
from acquisition.snapshot.arrivals import ArrivalReader
from acquisition.snapshot.block import Block
from acquisition.snapshot.column import Bools
from acquisition.snapshot.current_blocks import Judged, judge
from acquisition.snapshot.found import Found, Takes
from acquisition.snapshot.inputs import InputsTable, tables_of
from acquisition.snapshot.naming import Naming
from acquisition.snapshot.owner import Owner
from acquisition.snapshot.partition_reading import PartitionReader, Slotted
from acquisition.snapshot.placement import Placements, settle
from acquisition.snapshot.positions import PositionReader, PositionTable
from acquisition.snapshot.recent import RecentTable, read_recent
from acquisition.snapshot.refills import RefillReader
from acquisition.snapshot.shard_reading import Member, Place, read_heads, read_records
from acquisition.snapshot.sight_reading import Begun, SightReader
from acquisition.snapshot.snapshot import Snapshot
from acquisition.snapshot.survey import Survey
from acquisition.snapshot.survey_reading import SetReader
from acquisition.snapshot.vm_evidence import EvidenceIndex, all_evidence_of
from acquisition.wire.layout import Layout

if TYPE_CHECKING:
    from acquisition.config.settings import Settings

#: A block whose record is looked for, with the tick.
Wanted = tuple[Block, Member, int]

_NOTHING: Slotted = (-1, None)

COHERENT = "coherent"
LATEST = "latest"


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
        self._naming = Naming()
        self._evidence = EvidenceIndex()
        self._partitions: PartitionReader | None = None
        self._last: Found | None = None
        self._sets: dict[int, SetReader] = {}
        self._arrivals: dict[int, ArrivalReader] = {}
        self._layout: Layout | None = None
        self._instance = ""
        self._positions: PositionReader | None = None
        self._sights: SightReader | None = None
        self._refills: RefillReader | None = None

    @classmethod
    def connect(
        cls,
        addresses: Sequence[str] = (),
        credentials: Credentials | None = None,
        timeout: float = 2.0,
        grace_seconds: float = 0.5,
        down_after_seconds: float = 10.0,
    ) -> Self:
        """A reader of the shards that any of ``addresses`` (HOST:PORT) leads to, by default of those that every command
        finds: the configured ones, else this machine's.

        Raises ValueError for an address that is none, ConfigError or NoInputError for a bad configuration.
        """
        if addresses:
            cluster = Cluster([parse_address(text) for text in addresses], credentials, timeout)
        else:
            shards = load().shards
            cluster = Cluster(endpoints.seeds(shards), credentials or endpoints.credentials(shards), timeout)
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
        """The decision inputs of a snapshot's blocks, of exactly their ticks, by (host id, resource set id); nothing is
        read, for they lie in the records that the blocks hold.

        Absent are those that are damaged, and those of which nothing is configured.
        """
        return tables_of(snapshot.blocks)

    def recent(self, owners: Sequence[Owner]) -> dict[Owner, RecentTable]:
        """The last 120 ticks of resource sets, by (host id, resource set id). Raises ShardError when no shard answers
        at all."""
        return read_recent(self.cluster, self._prepare()[0], owners)

    @collector.paused()
    def survey(self, resource_set: str, newest: bool = False) -> Survey:
        """One resource set of all hosts at the coherent tick, as arrays (acquisition.snapshot.survey); with ``newest``
        each host at its own newest tick, where that is newer.

        Errors as of ``coherent``.
        """
        layout, positions = self._prepare()
        due = judgement.Due(self._clock(), self._grace, layout.keep_ticks)
        set_id = resource_set_id(resource_set)
        if set_id not in self._sets:
            self._sets[set_id] = SetReader(layout, set_id, positions.batch)
        asked = self._sets[set_id]
        table, errors, replies = positions.table(self.cluster, due.now, asked.prefetch(due))
        taken = asked.take(self.cluster, table, due, replies)
        if newest:
            taken = asked.with_newest(self.cluster, taken)
        return Survey(taken, [*errors, *self._lost(due, errors)])

    @collector.paused()
    def arrivals(self, resource_set: str) -> Snapshot:
        """One resource set of those hosts of which it has come anew since it was asked last, each with its newest tick:
        a ``latest`` reading of these alone. A host is left out until a newer tick has come than what is due, and
        while its clock is ahead; who is late, and why, is for the other readings.

        Errors as of ``coherent``.
        """
        due = judgement.Due(self._clock(), self._grace, self._prepare()[0].keep_ticks)
        set_id = resource_set_id(resource_set)
        if set_id not in self._arrivals:
            self._arrivals[set_id] = ArrivalReader(self._prepare()[0], set_id)
        begun, now = self._arrivals[set_id].take(self.cluster, due), self._clock()
        errors = self._naming.name(self.cluster, begun, begun, now, whole=False)
        return Snapshot(LATEST, now, [block.at(now) for _, block in begun], errors, began=due.now)

    def due_tick(self, interval: float, now: float) -> int:
        """The newest tick of an interval that must be there at ``now``, by the reader's clock."""
        return judgement.Due(now, self._grace, self._prepare()[0].keep_ticks).tick(interval)

    @collector.paused()
    def details(self, survey: Survey, wanted: Bools) -> tuple[Snapshot, dict[Owner, InputsTable]]:
        """The hosts of a survey that are ``wanted`` (N,), just as ``coherent`` and ``inputs`` would give them, but for
        newer ticks of the survey.

        Hosts of which the shards know other resource sets only are added, as ``unread``.
        """
        taken, layout = survey.taken, self._prepare()[0]
        current = survey.current(wanted)
        rows = taken.table.rows_of(np.concatenate([survey.hosts[wanted], taken.without]))
        begun = _begun(taken.table, rows, current)
        found = [
            (taken.table.members[row], at)
            for at in np.flatnonzero(wanted & taken.answered).tolist()
            if (row := int(taken.rows[at])) not in current
        ]
        records = {
            member.prefix: (ticks.slot_of(int(taken.ticks[at]), layout.keep_ticks), taken.records[at])
            for member, at in found
        }
        snapshot = self._judge(
            COHERENT, begun, _of_set(taken.set_id), taken.due, list(survey.errors), records, whole=False,
            heard=[taken.table.members[row] for row in taken.rows[~wanted].tolist()],
        )  # fmt: skip
        return snapshot, tables_of(snapshot.blocks)

    @collector.paused()
    def _read(self, reading: str, takes: Takes | None) -> Snapshot:
        layout, positions = self._prepare()
        due = judgement.Due(self._clock(), self._grace, layout.keep_ticks)
        assert self._partitions is not None
        question = (reading, takes)
        changed = self._partitions.read(self.cluster, question, due)
        if not changed and self._last is not None and self._last.serves(question, due.now):
            return self._last.snapshot(due.now, self._clock(), self._down_after)
        table, errors = positions.take([answer.applied for answer in self._partitions.answers], due.now)
        errors += self._lost(due, errors)
        errors += self._naming.renew(self.cluster, due.now)
        records = self._partitions.records()
        if reading == LATEST:
            return self._judge(reading, _begin(table.all_places()), takes, due, errors, records)
        judged, last = judge(table, records, due), self._last
        names = self._naming.all_of(table.members)
        if last is not None and not errors and last.question == question and last.has_rows_of(judged, names):
            return self._next(last, judged, due)
        snapshot = self._judge(
            reading, _begun(table, range(len(table.members)), judged.current()), takes, due, errors, records
        )
        if self._last is not None:
            self._last = self._last._replace(judged=judged, names=self._naming.all_of(table.members))
        return snapshot

    def _next(self, last: Found, judged: Judged, due: judgement.Due) -> Snapshot:
        """The snapshot of a reading in which everything is current, with the rows of the one before: no names are
        missing, no VM has come or gone."""
        now = self._clock()
        self._naming.note_outdated(judged.table.members, last.names, now)
        self._last = last.next(judged, due.now)
        return self._last.snapshot(due.now, now, self._down_after)

    def _judge(
        self,
        reading: str,
        begun: list[Begun],
        takes: Takes | None,
        due: judgement.Due,
        errors: list[ShardpulseError],
        known: Mapping[str, Slotted],
        whole: bool = True,
        heard: Sequence[Member] = (),
    ) -> Snapshot:
        """The snapshot of what has begun: of all hosts if it is ``whole``, else ``heard`` are members of others, which
        are current. ``known`` are records that were read."""
        taken = [pair for pair in begun if takes is None or takes(pair[0].host, pair[0].resource_set)]
        blocks = [block for _, block in taken]
        sought = [(block, member, block.tick) for member, block in taken if not block.delay]
        if whole and self._partitions is not None:
            paced = [(member, block.interval) for block, member, _ in sought] if reading == COHERENT else []
            self._partitions.remember(paced, {block.interval for block, _, _ in sought}, due)
        wanted = [each for each in sought if not each[0].has_values]
        if reading == COHERENT:
            newest = {interval: due.tick(interval) for interval in {block.interval for block, _, _ in wanted}}
            wanted = [(block, member, newest[block.interval]) for block, member, _ in wanted]
        self._take_records(wanted, reading, due, known)
        self._take_heads(wanted, due.keep_ticks)
        assert self._sights is not None
        seen = self._sights.read(self.cluster, begun, taken, due, self._down_after, heard)
        now = self._clock()
        messages = [str(error) for error in errors] + self._naming.name(self.cluster, begun, taken, now, whole)
        messages += [block.delay for block in blocks if block.unreachable]
        everyone = [block for _, block in begun]
        sight.look(everyone, seen, now, self._down_after)
        blind = sight.blindness(blocks, seen)
        messages += [blind] if blind else sight.errors(blocks)
        self._sights.remember(everyone, now)
        if whole:
            self._naming.forget({(member.host, member.resource_set) for member, _ in begun})
        unread = [] if takes is None else [block for _, block in begun if not takes(block.host_id, block.set_id)]
        contested = self._contested(begun, taken, due.keep_ticks) if whole else {}
        places = {vm: settle(vm, all_evidence_of(vm, where)) for vm, where in contested.items()}
        errors_told = tuple(dict.fromkeys(messages))
        if whole:
            owners = {vm: tuple(where) for vm, where in contested.items()}
            fresh = partial(_again, everyone)
            is_named = all(self._naming.suffices(member, block) for member, block in taken)
            until = sight.holds_until(everyone, self._down_after)
            self._last = Found((reading, takes), due.now, errors_told, fresh, owners, seen, until, is_named=is_named)
        placements = Placements(blocks, places) if whole else None
        return Snapshot(reading, now, blocks, errors_told, unread, placements, due.now, blind)

    def _prepare(self) -> tuple[Layout, PositionReader]:
        if self._layout is None or self._positions is None or self._instance != self.cluster.instance:
            self._layout = read_layout(self.cluster)
            self._positions = PositionReader(self._layout)
            self._partitions, self._last = PartitionReader(self._layout), None
            self._sights = SightReader(self._layout)
            self._refills = RefillReader(self._layout)
            self._sets.clear()
            self._arrivals.clear()
            self._instance = self.cluster.instance
        return self._layout, self._positions

    def _lost(self, due: judgement.Due, errors: Sequence[ShardpulseError]) -> list[ShardpulseError]:
        assert self._refills is not None
        return self._refills.read(self.cluster, due.now, errors)

    def _take_records(
        self, wanted: list[Wanted], reading: str, due: judgement.Due, known: Mapping[str, Slotted]
    ) -> None:
        slots = [(member, ticks.slot_of(tick, due.keep_ticks)) for _, member, tick in wanted]
        missing = [(member, slot) for member, slot in slots if known.get(member.prefix, _NOTHING)[0] != slot]
        read = dict(zip(missing, read_records(self.cluster, missing), strict=True)) if missing else {}
        judge = judgement.judge_coherent if reading == COHERENT else judgement.judge_latest
        for (block, member, tick), asked in zip(wanted, slots, strict=True):
            judge(block, read[asked] if read and asked in read else known[member.prefix][1], tick, due)

    def _take_heads(self, wanted: list[Wanted], keep_ticks: int) -> None:
        """Ask who the rows of late blocks were, and when they were last heard of."""
        late = [(block, member) for block, member, _ in wanted if not block.has_values and not block.unreachable]
        slots = [(member, ticks.slot_of(block.tick, keep_ticks)) for block, member in late]
        for (block, _), head in zip(late, read_heads(self.cluster, slots) if slots else (), strict=True):
            if head is not None and head[0].tick == block.tick:
                block.take_rows(*head)
                judgement.explain_delay(block)

    def _contested(self, begun: list[Begun], taken: list[Begun], keep_ticks: int) -> dict[str, dict[Owner, Block]]:
        """VMs that several hosts report, with their blocks, each of which has its newest record; the others are where
        they are."""
        present = [(member.host, member.resource_set) for member, _ in begun]
        contested = self._evidence.contested([block for _, block in taken], present)
        concerned = {key for where in contested.values() for key in where}
        silent = [
            (block, member)
            for member, block in taken
            if (block.host_id, block.set_id) in concerned and not block.has_values and block.head is not None
        ]
        slots = [(member, ticks.slot_of(block.tick, keep_ticks)) for block, member in silent]
        for (block, _), value in zip(silent, read_records(self.cluster, slots) if slots else (), strict=True):
            judgement.remember(block, value)
        return contested


def _again(blocks: Sequence[Block]) -> list[Block]:
    return [block.again() for block in blocks]


def _begun(table: PositionTable, rows: Sequence[int], current: Mapping[int, Block]) -> list[Begun]:
    """The members of these rows with their blocks: those that are ``current``, by row, are finished, the others are to
    be judged."""
    others = [row for row in rows if row not in current]
    places = iter(table.places(others) if others else ())
    return [(table.members[row], current.get(row) or judgement.begin(*next(places))) for row in rows]


def _begin(places: Iterable[tuple[Member, Place]]) -> list[Begun]:
    return [(member, judgement.begin(member, place)) for member, place in places]


def _of_set(wanted: int) -> Takes:
    return lambda _, number: number == wanted
