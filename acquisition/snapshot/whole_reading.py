"""Reading of all hosts: valid blocks are judged together, changed ones singly.

A reading starts from the result of the last one. If all are current in both, only those with changed rows,
columns or names, or with missing names, are finished: a VM that comes or goes costs its own host. If any is late, or
something could not be read, all are finished one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.model import ticks
from acquisition.snapshot.reading.finishing import COHERENT, LATEST, NEWEST, Finisher, begin, begun_of
from acquisition.snapshot.reading.heads import Judged, judge
from acquisition.snapshot.reading.partitions import PartitionReader, Slotted
from acquisition.snapshot.reading.positions import PositionReader, PositionTable, dormant_of
from acquisition.snapshot.reading.records import Due, Naming, read_records
from acquisition.snapshot.snapshot import Contents, Snapshot
from acquisition.snapshot.values.block import Begun, Block
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.names import Names
from acquisition.snapshot.visibility import causes
from acquisition.snapshot.visibility.causes import Visibility
from acquisition.snapshot.visibility.roster import RefillReader
from acquisition.snapshot.vms.evidence import EvidenceIndex
from acquisition.snapshot.vms.placement import placements_of
from acquisition.wire.layout import Layout

#: Whether the values of a (host id, resource set id) are wanted.
Takes = Callable[[int, int], bool]
#: The kind of reading, and its filter.
Question = tuple[str, Takes | None]
LONGEST_SERVED = 5.0  #: seconds for which an unchanged reading is reused


class Found(NamedTuple):
    """Result of a whole reading, independent of the clock: a later unchanged one reuses it.

    Ages, and hosts being down because of them, depend on the clock although nothing was committed. So each snapshot has
    its own blocks; they are made on first use.

    ``at`` is the reader's clock when the ticks were chosen, ``fresh`` makes the blocks again, without ages;
    ``contested`` are the owners of the blocks of each VM reported by several hosts. ``judged`` and ``names`` are of
    readings in which everything was current."""

    question: Question
    at: float
    errors: tuple[str, ...]
    fresh: Callable[[], list[Block]]
    contested: Mapping[str, Sequence[Owner]]
    visibility: Visibility
    until: float  #: when the states of its hosts may change, by the reader's clock
    judged: Judged | None = None
    names: Sequence[Names | None] = ()
    unnamed: frozenset[int] = frozenset()  #: rows with something unnamed
    order: Sequence[int] | None = None  #: that of a snapshot, if ``fresh`` is in it

    def serves(self, question: Question, now: float) -> bool:
        """Whether an otherwise unchanged reading at ``now`` may reuse this one."""
        same = self.question == question and not self.unnamed and not self.errors
        return same and 0.0 <= now - self.at < LONGEST_SERVED and now < self.until

    def changes(self, judged: Judged, names: Sequence[Names | None]) -> list[int] | None:
        """Rows with changed names, rows or columns in ``judged``, or with unknown ones; None if not
        everything is current in both, with the same members, all with names."""
        if self.judged is None or self.errors or None in names or len(names) != len(self.names):
            return None
        changed = judged.rows_unlike(self.judged)
        if changed is None:
            return None
        if names is not self.names:
            changed |= {row for row, pair in enumerate(zip(names, self.names, strict=True)) if pair[0] is not pair[1]}
        return sorted(changed | self.unnamed)

    def snapshot(self, began: float, now: float, down_after: float) -> Snapshot:
        """Snapshot of a reading with this result."""

        def make() -> Contents:
            blocks, takes = self.fresh(), self.question[1]
            causes.look(blocks, self.visibility, now, down_after)
            taken = blocks if takes is None else [block for block in blocks if takes(block.host_id, block.set_id)]
            unread = [] if takes is None else [block for block in blocks if not takes(block.host_id, block.set_id)]
            return Contents(taken, unread, placements_of(taken, self.contested), self.order is not None)

        return Snapshot.made_later(self.question[0], now, self.errors, began, make)

    def next(self, judged: Judged, names: Sequence[Names | None], at: float) -> Found:
        """Result if everything is current again, and every member has names."""
        order = self.order
        others = (pair for pair in zip(names, self.names, strict=True) if pair[0] is not pair[1])
        if order is None or any(_place(now) != _place(before) for now, before in others):
            order = sorted(range(len(names)), key=list(map(_place, names)).__getitem__)
        fresh = partial(_with_names, judged, names, order)
        return self._replace(at=at, judged=judged, names=names, fresh=fresh, order=order)


def _place(names: Names | None) -> tuple[str, str]:
    """As snapshot.place_of."""
    assert names is not None
    return names.table.host, names.table.resource_set


def _with_names(judged: Judged, names: Sequence[Names | None], order: Sequence[int]) -> list[Block]:
    """Blocks of a reading in which everything is current."""
    blocks = judged.current(order)
    for row, block in blocks.items():
        block.use_names(names[row], None)
    return list(blocks.values())


class Shared(NamedTuple):
    """State shared by the readings of one reader."""

    cluster: Cluster
    clock: Callable[[], float]
    down_after: float
    naming: Naming
    positions: PositionReader
    refills: RefillReader
    finisher: Finisher


class WholeReader:
    """Reads all hosts repeatedly, and keeps the result of the last reading."""

    def __init__(self, layout: Layout, shared: Shared) -> None:
        self._shared = shared
        self._partitions = PartitionReader(layout)
        self._evidence = EvidenceIndex()
        self._last: Found | None = None

    def read(self, reading: str, takes: Takes | None, due: Due) -> Snapshot:
        """A snapshot of ``reading``, narrowed to members for which ``takes`` returns True. Raises ShardError,
        TemporaryError or PermissionRefused if no shard can be read."""
        shared, question, last = self._shared, (reading, takes), self._last
        changed = self._partitions.read(shared.cluster, question, due)
        differ = shared.finisher.clocks.differ()
        if not changed and not differ and last is not None and last.serves(question, due.now):
            return last.snapshot(due.now, shared.clock(), shared.down_after)
        table, errors = shared.positions.take(
            [answer.applied for answer in self._partitions.answers], due.now, partial(dormant_of, shared.cluster)
        )
        errors += shared.refills.read(shared.cluster, due.now, errors)
        errors += shared.naming.renew(shared.cluster, due.now)
        if reading == LATEST:
            return self._finish(question, begin(table.all_places()), due, errors, {})
        if reading == NEWEST:
            values, known = self._newest(table, takes, due.keep_ticks)
            begun = begun_of(table, range(len(table.members)), judge(table, values, due, newest=True).current())
            return self._finish(question, begun, due, errors, known)
        judged = judge(table, self._partitions.values(table.members), due)
        if last is not None and last.question == question and not errors and not differ:
            names = shared.naming.all_of(table.members)
            changes = last.changes(judged, names)
            if changes is not None:
                return self._next(last, judged, names, changes, due)
        begun = begun_of(table, range(len(table.members)), judged.current())
        snapshot = self._finish(question, begun, due, errors, self._partitions.records())
        if self._last is not None:
            self._last = self._last._replace(judged=judged, names=shared.naming.all_of(table.members))
        return snapshot

    def _next(
        self, last: Found, judged: Judged, names: Sequence[Names | None], changes: Sequence[int], due: Due
    ) -> Snapshot:
        """Snapshot of a reading in which everything is current, and all but these ``changes`` is as in the
        previous one, with the same members."""
        shared, members, now = self._shared, judged.table.members, self._shared.clock()
        contested, unnamed, errors = last.contested, frozenset[int](), list[str]()
        if changes:
            blocks = judged.current(changes)
            begun = [(members[row], block) for row, block in blocks.items()]
            errors = shared.naming.name(shared.cluster, begun, begun, now, whole=True)
            unnamed = frozenset(row for row, block in blocks.items() if not shared.naming.suffices(members[row], block))
            self._evidence.take(blocks.values())
            contested = self._evidence.contested()
            names = shared.naming.all_of(members)
        shared.naming.note_outdated(members, names, now)
        self._last = last.next(judged, names, due.now)._replace(
            errors=tuple(errors), contested=contested, unnamed=unnamed
        )
        return self._last.snapshot(due.now, now, shared.down_after)

    def _newest(
        self, table: PositionTable, takes: Takes | None, keep_ticks: int
    ) -> tuple[list[bytes | None], dict[str, Slotted]]:
        """Record of each member's newest tick in the order of ``table``, None if absent or not
        taken; and the replies, by the prefix of the member."""
        paced = table.known & (table.records["interval"] > 0.0)
        wanted = [
            (row, (member, ticks.slot_of(tick, keep_ticks)))
            for row, (member, tick) in enumerate(zip(table.members, table.records["tick"].tolist(), strict=True))
            if paced[row] and (takes is None or takes(member.host, member.resource_set))
        ]
        found: list[bytes | None] = [None] * len(table.members)
        known: dict[str, Slotted] = {}
        values = read_records(self._shared.cluster, [asked for _, asked in wanted]) if wanted else []
        for (row, (member, slot)), value in zip(wanted, values, strict=True):
            if not isinstance(value, ShardpulseError):
                found[row] = value
                known[member.prefix] = slot, value
        return found, known

    def _finish(
        self,
        question: Question,
        begun: list[Begun],
        due: Due,
        errors: list[ShardpulseError],
        known: Mapping[str, Slotted],
    ) -> Snapshot:
        """Snapshot of the begun blocks, each examined; ``known`` as for ``Finisher.finish``."""
        (reading, takes), shared = question, self._shared
        taken = [pair for pair in begun if takes is None or takes(pair[0].host, pair[0].resource_set)]
        self._remember(reading, taken, due)
        now, texts, seen, blind = shared.finisher.finish(reading, begun, taken, due, errors, known)
        present = {(member.host, member.resource_set) for member, _ in begun}
        shared.naming.forget(present)
        blocks, everyone = [block for _, block in taken], [block for _, block in begun]
        there = {(block.host_id, block.set_id): block for block in blocks}
        self._evidence.take(blocks)
        self._evidence.forget(present)
        contested = self._evidence.contested(there)
        shared.finisher.remember_past(taken, {key for where in contested.values() for key in where}, due.keep_ticks)
        unnamed = frozenset(
            row for row, (member, block) in enumerate(taken) if not shared.naming.suffices(member, block)
        )
        until = causes.holds_until(everyone, shared.down_after)
        self._last = Found(question, due.now, texts, partial(_again, everyone), contested, seen, until, unnamed=unnamed)
        unread = [] if takes is None else [block for _, block in begun if not takes(block.host_id, block.set_id)]
        return Snapshot(reading, now, blocks, texts, unread, placements_of(blocks, contested), due.now, blind)

    def _remember(self, reading: str, taken: Sequence[Begun], due: Due) -> None:
        """Members whose records the next reading requests together with everything else."""
        sought = [(member, block.interval) for member, block in taken if not block.delay]
        self._partitions.remember(sought if reading == COHERENT else [], {interval for _, interval in sought}, due)


def _again(blocks: Sequence[Block]) -> list[Block]:
    return [block.again() for block in blocks]
