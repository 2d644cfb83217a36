"""Finishing blocks one by one: missing records, late headers, names, causes.

Each is read in one round for all blocks that need it; plainly current ones need none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.model import ticks
from acquisition.snapshot.reading import records
from acquisition.snapshot.reading.partitions import Slotted
from acquisition.snapshot.reading.positions import PositionTable
from acquisition.snapshot.reading.records import Due, Naming, read_heads, read_records
from acquisition.snapshot.values.block import Begun, Block
from acquisition.snapshot.values.members import Member, Owner, Place
from acquisition.snapshot.visibility import causes, roster
from acquisition.snapshot.visibility.causes import Visibility
from acquisition.snapshot.visibility.clocks import ClockReader
from acquisition.snapshot.visibility.inquiry import VisibilityReader
from acquisition.wire.layout import Layout

COHERENT, LATEST, NEWEST = "coherent", "latest", "newest"  #: the readings
_JUDGES = {COHERENT: records.judge_coherent, LATEST: records.judge_latest, NEWEST: records.judge_newest}

#: A block whose record is wanted, with the tick.
Wanted = tuple[Block, Member, int]

_NOTHING: Slotted = (-1, None)


class Finished(NamedTuple):
    """``now`` is the reader's clock when everything had been read; ``errors`` are what could not be read and why hosts
    cannot be seen, ``blind`` why no host can."""

    now: float
    errors: tuple[str, ...]
    visibility: Visibility
    blind: str


class Finisher:
    """Finishes the blocks of one reader's readings, and remembers which hosts could not be seen."""

    def __init__(
        self, cluster: Cluster, layout: Layout, naming: Naming, clock: Callable[[], float], down_after: float
    ) -> None:
        self._cluster = cluster
        self._layout = layout
        self._naming = naming
        self._clock = clock
        self._down_after = down_after
        self._visibility = VisibilityReader(layout)
        self.clocks = ClockReader(cluster, layout, clock)

    def finish(
        self,
        reading: str,
        begun: Sequence[Begun],
        taken: Sequence[Begun],
        due: Due,
        errors: Iterable[ShardpulseError],
        known: Mapping[str, Slotted],
    ) -> Finished:
        """Finish begun blocks, of which only those in ``taken`` get values; ``known`` are records
        already read, by prefix. Raises ShardError if no shard answers at all."""
        wanted = [
            (block, member, due.tick(block.interval) if reading == COHERENT else block.tick)
            for member, block in taken
            if not (block.delay or block.has_values)
        ]
        self._take_records(wanted, reading, due, known)
        self._take_heads(wanted, due.keep_ticks)
        seen = self._visibility.read(self._cluster, begun, taken, due.now, due.grace, self._down_after)
        now, blocks, everyone = self._clock(), [block for _, block in taken], [block for _, block in begun]
        messages = [str(error) for error in errors]
        messages += self._naming.name(self._cluster, begun, taken, now, whole=True)
        messages += [block.delay for block in blocks if block.unreachable]
        causes.look(everyone, seen, now, self._down_after)
        clocks = self.clocks.remarks(everyone, now)
        blind = causes.blindness(blocks, clocks) if begun else "; ".join([self._emptiness(now), *clocks])
        messages += seen.unanswered
        messages += [blind] if blind else [*clocks, *causes.errors(blocks)]
        self._visibility.remember(everyone, now)
        return Finished(now, tuple(dict.fromkeys(messages)), seen, blind)

    def _emptiness(self, now: float) -> str:
        """Why there is no host at all."""
        return roster.blindness(roster.read(self._cluster, self._layout, now))

    def remember_past(self, taken: Sequence[Begun], concerned: set[Owner], keep_ticks: int) -> None:
        """Give blocks without values their newest records, if they are ``concerned``."""
        silent = [
            (block, member)
            for member, block in taken
            if (block.host_id, block.set_id) in concerned and not block.has_values and block.head is not None
        ]
        slots = [(member, ticks.slot_of(block.tick, keep_ticks)) for block, member in silent]
        for (block, _), value in zip(silent, read_records(self._cluster, slots) if slots else (), strict=True):
            records.remember(block, value)

    def _take_records(self, wanted: Sequence[Wanted], reading: str, due: Due, known: Mapping[str, Slotted]) -> None:
        slots = [(member, ticks.slot_of(tick, due.keep_ticks)) for _, member, tick in wanted]
        missing = [(member, slot) for member, slot in slots if known.get(member.prefix, _NOTHING)[0] != slot]
        read = dict(zip(missing, read_records(self._cluster, missing), strict=True)) if missing else {}
        judge = _JUDGES[reading]
        for (block, member, tick), asked in zip(wanted, slots, strict=True):
            judge(block, read[asked] if read and asked in read else known[member.prefix][1], tick, due)

    def _take_heads(self, wanted: Sequence[Wanted], keep_ticks: int) -> None:
        """Read the rows of late blocks, and when they last reported."""
        late = [(block, member) for block, member, _ in wanted if not block.has_values and not block.unreachable]
        slots = [(member, ticks.slot_of(block.tick, keep_ticks)) for block, member in late]
        for (block, _), head in zip(late, read_heads(self._cluster, slots) if slots else (), strict=True):
            if isinstance(head, ShardpulseError):
                block.delay, block.unreachable = str(head), True
            elif head is not None and head[0].tick == block.tick:
                block.take_rows(*head)
                records.explain_delay(block)


def begin(places: Iterable[tuple[Member, Place]]) -> list[Begun]:
    """Blocks of members, to be finished."""
    return [(member, records.begin(member, place)) for member, place in places]


def begun_of(table: PositionTable, rows: Sequence[int], current: Mapping[int, Block]) -> list[Begun]:
    """The members of these rows with their blocks: ``current`` ones, by row, have their values, the others
    are to be finished."""
    others = [row for row in rows if row not in current]
    blocks = iter(begin(table.places(others)) if others else ())
    return [(table.members[row], current.get(row) or next(blocks)[1]) for row in rows]
