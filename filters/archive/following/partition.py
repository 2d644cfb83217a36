"""Archived partition: from stream entries to the rows of a transaction (pure).

``take`` receives entries in stream order, repeatedly if necessary; ``close`` returns the data to make durable for the
minutes that are over, with the cursor and the state for ``resume``. The store lies between the two.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from acquisition.config.archive import Archive
from acquisition.errors import FrameError
from acquisition.model.ticks import exact_interval
from acquisition.wire import frame as wire
from acquisition.wire import keys, readers, table
from acquisition.wire.archived import Archived
from acquisition.wire.frame import Frame
from acquisition.wire.rejected import Limits
from acquisition.wire.signature import Verifier
from acquisition.wire.stream_id import is_before, parse
from filters.archive.following import state as states
from filters.archive.following.entry_ids import START, after, before
from filters.archive.following.known_sets import Counts, KnownSets
from filters.archive.following.state import State
from filters.archive.minutes.gathering import Parts, Whereabouts
from filters.archive.minutes.intake import Intake
from filters.archive.minutes.minute import Minute
from filters.archive.minutes.notes import Notes
from filters.archive.minutes.numbers import Numbers
from filters.archive.minutes.resource_set import ResourceSet
from filters.archive.minutes.values import (
    DAY,
    MINUTE,
    Advance,
    Batch,
    Cursor,
    Event,
    MinuteMatrix,
    Position,
    Series,
    Statistic,
)

CLOCK = "its clock is wrong"  #: reason for a gap: tick far from the shard's clock
AHEAD_SECONDS = 300.0  #: that a tick may be ahead of the shard's clock
_HOLE_MS = 120_000  #: in which a probe resends entries lost by a shard
_AGAIN_MS = 60_000  #: before the cursor, read again
_CONFIGURED = Archive()


class Rules(NamedTuple):
    """Seconds: when a minute closes after its end, and the maximum age of a tick; ``percentiles``: patterns
    SET.METRIC of metrics with percentiles; ``limits``: those of hosts."""

    grace: float = _CONFIGURED.grace_seconds
    retention: float = _CONFIGURED.minutes_days * DAY
    percentiles: tuple[str, ...] = ()
    limits: Limits = Limits()


class Partition:
    """``read``: newest entry taken; ``whereabouts`` are shared by partitions;
    ``verifier`` None: signatures are not checked."""

    def __init__(
        self,
        number: int,
        partitions: int,
        rules: Rules,
        whereabouts: Whereabouts | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        self.number = number
        self.tag = keys.tags(partitions)[number]
        self.read = START
        self.commit_id = 0
        self.entry = START  #: oldest entry still needed, as of the last commit
        self._rules = rules
        self._whereabouts = Whereabouts() if whereabouts is None else whereabouts
        self._sets = KnownSets()
        self._closed = 0  #: minutes that begin before it are closed
        self._notes = Notes(number)
        self._intake = Intake(number, partitions, rules.limits, verifier, self._notes)
        self._news = False
        self._late_since = 0  #: milliseconds of the first unwritten event or late entry
        self._reached = START  #: the newest entry taken, even if entries are read again
        self._returned = b""  #: as in ``State``
        self.returning = False  #: the return of the database to an earlier state is not durable yet
        self.sought: set[tuple[int, int]] = set()  #: (host, resource set) to look up in the database

    # ---------------------------------------------------------------- going on

    def resume(self, cursor: Cursor) -> None:
        """Continue after a commit by this or another archiver."""
        self.commit_id, self.entry = cursor.commit_id, cursor.entry.encode()
        self.read = self._reached = before(self.entry)
        self._closed, past, sets, self._returned = states.decode(cursor.state)
        self._sets = KnownSets(past)
        for document in sets:
            self._sets.of(*document[:2]).restore(document)
            self._intake.sizes.note(document[0], document[1], 0)
        self._sets.recall(one for one in cursor.positions if one[:2] in self._sets)
        self.rewind()  # the shard may be another one now

    def rewind(self) -> None:
        """Read again the entries of the last minute before the cursor: known ones are dropped."""
        self.read = max(START, b"%d-0" % max(0, parse(min(self.read, self.entry, key=parse))[0] - _AGAIN_MS))
        if parse(self.read) <= (0, 0):
            self.read = START

    def begin_anew(self) -> None:
        """The stream is another one: read it from the start."""
        self.read = START

    @property
    def reached(self) -> bytes:
        """The newest entry ever taken."""
        return self._reached

    @property
    def counts(self) -> Counts:
        """The books of this partition."""
        return self._sets.counts

    @property
    def books(self) -> list[Archived]:
        """Books of each resource set of each host that reported within an hour."""
        return [one.books for one in self._sets]

    @property
    def open_episodes(self) -> int:
        """Number of episodes that may continue."""
        return sum(len(one.episodes) for one in self._sets)

    def nameless(self) -> list[tuple[int, int]]:
        """Sets without a known table: the filter may have it."""
        return [one.key for one in self._sets if one.table is None and (one.minutes or one.late)]

    def learn(self, host: int, resource_set: int, payload: bytes) -> None:
        """Learn the table of a set. Raises FrameError."""
        self._sets.of(host, resource_set).learn(table.decode(payload))

    # ---------------------------------------------------------------- entries

    def take(self, entries: Sequence[Any]) -> int:
        """Take entries in stream order; returns the number of new samples. Entries that are not frames, or not signed
        by their host, are left to the filter to reject; any other entry that fails is skipped, with an event. Stops at
        a set that the database may know: ``sought`` then contains it."""
        samples = 0
        for place, (entry, fields) in enumerate(entries):
            frame = self._intake.frame_in(entry, fields)
            if frame is not None and self._may_be_spilled(frame):
                frames = [self._intake.frame_in(*each) for each in entries[place:]]
                self.sought = {(one.host, one.resource_set) for one in frames if one and self._may_be_spilled(one)}
                break
            self.read = entry
            if frame is not None:
                samples += self._intake.tried(entry, partial(self._take, entry, frame)) or 0
        self._reached = max(self._reached, self.read, key=parse)
        return samples

    def recall(self, found: Iterable[Position]) -> None:
        """Load the database's rows on the ``sought`` sets."""
        for key in self.sought:
            self._sets.of(*key)
        for position in found:
            one = self._sets.of(position.host, position.resource_set)
            one.numbers[position.epoch], one.heard[position.epoch] = Numbers.resumed(position.sequence), 0
            self._sets.recall([position])
        self.sought = set()

    def _may_be_spilled(self, frame: Frame) -> bool:
        return self.commit_id != 0 and (frame.host, frame.resource_set) not in self._sets

    def see_cut(self, data: bytes) -> None:
        """Mark of a forced trim: report it if unread entries were cut."""
        try:
            first = readers.decode_cut(data).first
        except FrameError:
            return
        if self._reached != START and is_before(after(self._reached), first):
            self._notes.of_entry("cut", first, {"after": self._reached.decode(), "first": first.decode()})

    def note_return(self, entry: bytes) -> bool:
        """Report that the database, earlier at ``entry``, has returned to an older state; unless that was reported
        by an archiver that could not claim the entries it needs from there on."""
        if entry == self._returned:
            return False
        self._notes.of_entry("database_went_back", entry, {"from": entry.decode(), "to": self.entry.decode()})
        self._returned, self.returning = entry, True
        return True

    def written(self) -> None:
        """Note that closed minutes are durable."""
        self.returning = False
        for one in self._sets:
            one.unwritten = 0

    def refuse(self, minute: MinuteMatrix) -> None:
        """Note that a minute cannot be stored and will never be in the archive."""
        one = self._sets.of(minute.series.host, minute.series.resource_set)
        samples = int(minute.values[Statistic.COUNT].sum())
        one.archived -= samples
        one.gap += samples
        one.unwritten -= samples

    def _take(self, entry: bytes, frame: Frame) -> int:
        one, now = self._sets.of(frame.host, frame.resource_set), parse(entry)[0]
        known = one.numbers.get(frame.epoch)
        if known is None:
            known = one.numbers[frame.epoch] = Numbers.before(frame.sequence, frame.made)
            if len(one.numbers) > 1:
                self._notes.restarted(frame, now)
        if not known.is_possible(frame.sequence, (now - one.heard.get(frame.epoch, now)) / 1000.0):
            reason = f"frame {frame.sequence} after {known.newest} of its epoch: impossible sequence"
            self._notes.put_aside("implausible", entry, reason, frame.host)
            return 0
        one.heard[frame.epoch] = now
        gap = known.gap
        fresh = known.take(frame.sequence, frame.made, frame.samples, now)
        if frame.kind == wire.KIND_TABLE:
            named = table.decode(frame.payload)
            self._intake.sizes.check_table(frame.host, len(named.metrics), len(named.entities))
            one.learn(named)
        sheds = bool(frame.hints & wire.HINT_SHEDS)
        if fresh and known.gap != gap:
            self._notes.lose("shed" if sheds else "loss", frame, now, known.gap - gap)
        if known.holes:
            for hole in known.give_up(frame.floor, now - _HOLE_MS):
                frames = hole.high - hole.low + 1
                if sheds and hole.high < frame.floor:
                    self._notes.lose("shed", frame, now, hole.samples, frames)
                else:
                    self._notes.note(one.gap_event(frame.epoch, hole, now, "not in the stream"))
        self._news |= fresh
        if not fresh or frame.kind != wire.KIND_SAMPLES or not frame.samples:
            return 0
        time = frame.tick * exact_interval(frame.interval)
        if not now / 1000.0 - self._rules.retention <= time <= now / 1000.0 + AHEAD_SECONDS:
            known.lose(frame.samples)
            self._notes.lose("gap", frame, now, frame.samples, reason=CLOCK)
            return 0
        try:
            self._place(one, frame, entry, time, now)
        except Exception:  # the filter rejects it
            known.lose(frame.samples)
            raise
        return frame.samples

    def _place(self, one: ResourceSet, frame: Frame, entry: bytes, time: float, now: int) -> None:
        minute = int(time // MINUTE) * MINUTE
        late = minute < self._closed
        held = one.late if late else one.minutes
        if late and not self._late_since:
            self._late_since = now
        series = Series(frame.host, frame.resource_set, frame.epoch, frame.schema)
        found = held.get((series, minute))
        if found is None:
            kept = one.percentiles(frame.metrics, self._rules.percentiles)
            found = held[(series, minute)] = Minute(series, minute, frame.metrics, entry, late, kept)
        if found.rollup.metrics != frame.metrics:
            one.numbers[frame.epoch].lose(frame.samples)
            self._notes.lose("gap", frame, now, frame.samples, reason="of another width than its schema")
            return
        found.first = min(found.first, entry, key=parse)
        found.add(frame, time, now)

    def happened(self, event: Event) -> None:
        """Record an event reported by others; it is written after the grace time at the latest."""
        self._notes.note(event)
        self._late_since = self._late_since or round(event.time * 1000)

    # ---------------------------------------------------------------- commits

    def due(self, now: int) -> bool:
        """Whether at ``now``, milliseconds of the shard's clock, there are finished minutes not closed yet, late
        entries or events older than the grace time, or a return of the database that is not durable yet."""
        if self.returning:
            return True
        if self._late_since and now - self._late_since > 1000 * self._rules.grace:
            return True
        return self._news and self._closing(now) > self._closed

    def _closing(self, now: int) -> int:
        return int((now / 1000.0 - self._rules.grace) // MINUTE) * MINUTE

    def close(self, now: int, finish: bool = False) -> Batch:
        """Close finished minutes, or all open ones to ``finish``; returns the batch of this partition alone, after
        whose commit this object continues."""
        self._closed = max(self._closed, self._closing(now))
        if finish:
            open_ones = [key[1] + MINUTE for one in self._sets for key in one.minutes]
            self._closed = max([self._closed, *open_ones])
        parts = Parts(self._notes.tell(), self._whereabouts)
        self._late_since = 0
        for one in self._sets:
            parts.close_set(one, self._closed, self._rules.percentiles)
        changed = self._sets.changed()
        for gone in self._sets.forget(now):
            parts.episodes += gone.episodes.end()
            parts.entities += gone.changed(gone.inventory.end())
            self._intake.sizes.remove(*gone.key)
        firsts = [minute.first for one in self._sets for minute in one.minutes.values()]
        self.entry = min(firsts, key=parse, default=after(self.read))
        previous, self.commit_id = self.commit_id, int.from_bytes(os.urandom(8)) >> 1 or 1
        self._news = bool(firsts) or self.open_episodes > 0
        entry, forgotten = self.entry.decode(), self._sets.over()
        return parts.batch(Advance(self.number, previous, self.commit_id, entry, self._state(), changed, forgotten))

    def _state(self) -> bytes:
        sets = tuple(one.document() for one in self._sets)
        return states.encode(State(self._closed, self._sets.past, sets, self._returned))
