"""What a survey reads from the shards: the records of one resource set of all hosts."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import ShardpulseError
from acquisition.link.batch import Batch
from acquisition.link.cluster import Cluster
from acquisition.model.metric import HOST_SET, resource_set_id
from acquisition.snapshot.column import Bools
from acquisition.snapshot.current_blocks import due_ticks
from acquisition.snapshot.judgement import Due
from acquisition.snapshot.newest_records import NewestRecords, positions_as_bytes
from acquisition.snapshot.positions import PositionTable
from acquisition.snapshot.record_arrays import Rows
from acquisition.snapshot.record_questions import RecordQuestions
from acquisition.snapshot.set_records import EvenRecords, HostRows, SetRecords, joined
from acquisition.snapshot.shard_reading import Command, Member
from acquisition.wire import host_records, keys
from acquisition.wire.layout import Layout

_SAID_EVERY = 10  #: seconds, filters are told that somebody asks for records side by side
_MOST_QUESTIONS = 8  #: that are kept: one for each slot, and some for mixtures
_OWN = resource_set_id(HOST_SET)
Slots = npt.NDArray[np.int64]


class Taken(NamedTuple):
    """Everything that was read. ``rows`` (N,) are those of the resource set among all of ``table``; arrays (N,) and
    records are in their order.

    ``ticks`` are those that are due, or newer ones where these were asked for; ``intervals`` seconds; both 0 where a
    host's position says nothing of them. ``tick`` is the newest that is due.
    ``records`` are None where there is nothing; ``answered`` is False where that is not certain.
    """

    due: Due
    table: PositionTable
    set_id: int
    rows: Rows
    ticks: npt.NDArray[np.int64]
    tick: int
    intervals: npt.NDArray[np.float64]
    records: SetRecords
    answered: Bools
    without: npt.NDArray[np.uint64]  #: hosts of which the shards know other resource sets only

    def of(self, places: Rows) -> Taken:
        """That of some of the rows (k,) alone."""
        return self._replace(
            rows=self.rows[places], ticks=self.ticks[places], intervals=self.intervals[places],
            records=self.records.of(places), answered=self.answered[places],
        )  # fmt: skip


class _Part(NamedTuple):
    """The members of the partition with a ``tag``, adjacent rows, each with its slot. ``joint`` is the key of what may
    hold the records of all of them side by side; "" where nothing does."""

    tag: str
    members: Sequence[Member]
    slots: Sequence[int]
    joint: str

    def records(self, places: Sequence[int]) -> Command:
        """What asks for the records of some of them under their own keys."""
        names = [f"{self.members[place].prefix}{self.slots[place]}" for place in places]
        return names[0], ("MGET", *names)


class _Question(NamedTuple):
    """What is asked: in ``batch`` all positions, then what lies side by side, then the records of partitions in which
    nothing can. If all records are asked for ``alone``, only whether anything lies side by side."""

    parts: Sequence[_Part]
    rows: HostRows
    alone: bool
    batch: Batch


class SetReader:
    """Reads one resource set, again and again, behind all ``positions``; it keeps what it asks while nobody comes or
    goes.

    Where records lie side by side (acquisition.wire.host_records) it asks for these, and only for who is not among them
    alone; where most partitions have none, for all alone at once.
    """

    def __init__(self, layout: Layout, set_id: int, positions: Batch) -> None:
        self._keep_ticks = layout.keep_ticks
        self._positions = positions
        self._set_id = set_id
        self._members: Sequence[Member] = ()
        self._intervals: npt.NDArray[np.float64] = np.empty(0)
        self._without: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._early: tuple[bool, bytes] = (True, b"")  #: how, and for which slots, was asked early
        self._alone = True
        self._said = -math.inf  #: when (CLOCK_MONOTONIC) filters were told that somebody asks
        self._asked: dict[tuple[bool, bytes], _Question] = {}
        self._newest = NewestRecords()
        self._questions = RecordQuestions(())

    def prefetch(self, due: Due, newest: bool) -> Batch | None:
        """All positions, and what ``take`` will ask for behind them unless hosts have come or gone since (as
        acquisition.snapshot.partition_reading does); None where these are positions alone."""
        if newest and self._newest.are_held(self._members, due):
            return None
        slots = due_ticks(self._intervals, due)[1] % self._keep_ticks
        self._early = self._alone, slots.tobytes()
        found = self._asked.get(self._early)
        return None if found is None else found.batch

    def take(self, cluster: Cluster, table: PositionTable, due: Due, replies: Sequence[Any], newest: bool) -> Taken:
        """Read it, as far as the ``replies`` to what was asked early are not what is wanted; with ``newest`` the newest
        record of each host that is ahead of what is due. Raises ShardError when no shard answers at all."""
        rows = np.flatnonzero(table.sets == self._set_id)
        self._intervals = np.where(table.known[rows], table.records["interval"][rows], 0.0)
        intervals, wanted = due_ticks(self._intervals, due)
        due_tick, applied = int(wanted.max(initial=0)), table.records["tick"][rows]
        ahead = (intervals > 0.0) & (applied > wanted) & newest
        positions = positions_as_bytes(table, rows)
        if newest and not len(replies) and self._newest.are_held(table.members, due):
            even: EvenRecords | None
            held, same = self._newest.held(positions, table.known[rows])
            slots = np.where(ahead, applied, wanted) % self._keep_ticks, wanted % self._keep_ticks
            even, answered, ahead = self._renewed(cluster, held, same & ahead, ahead, slots)
            records = even.records()
        else:
            records, answered = self._due_records(cluster, table, rows, wanted, replies)
            ahead, _ = _read(cluster, table, rows, applied % self._keep_ticks, ahead, records)
            even = records.evened() if newest and self._newest.is_often(due) else None
        found = np.where(ahead, applied, wanted)
        if newest:
            self._newest.note(due)
        if even is not None:
            self._newest.keep(table.members, positions, even, answered & (intervals > 0.0) & (found == applied))
        return Taken(due, table, self._set_id, rows, found, due_tick, intervals, records, answered, self._without)

    def _renewed(
        self, cluster: Cluster, held: EvenRecords, same: Bools, ahead: Bools, slots: tuple[Slots, Slots]
    ) -> tuple[EvenRecords, Bools, Bools]:
        """The records that are ``held`` where they are the ``same``, and those of all others, read anew; which of them
        are certain; and who is ``ahead``: nobody whose newest is not there, for what is due may be. ``slots`` are those
        of each host's newest, and of what is due."""
        records = held.without(~same)
        found, certain = self._put(cluster, ~same, slots[0], records)
        gone = ahead & ~same & ~found
        _, certain_due = self._put(cluster, gone, slots[1], records)
        return records, certain & certain_due, ahead & ~gone

    def _put(
        self, cluster: Cluster, wanted: Bools, slots: npt.NDArray[np.int64], records: EvenRecords
    ) -> tuple[Bools, Bools]:
        """Put in the records of rows that are ``wanted`` (N,), each of its slot; for whom there was one, and who is
        certain, (N,)."""
        found, certain = np.zeros(len(wanted), np.bool_), np.ones(len(wanted), np.bool_)
        places = np.flatnonzero(wanted)
        if not places.size:
            return found, certain
        answered = self._questions.ask(cluster, places, slots[places], records.matrix.shape[1])
        if answered.values is not None:
            records.put(places, answered.values)
            found[places] = True
            return found, certain
        listed = [_listed(reply, count) for reply, count in zip(answered.replies, answered.parts, strict=True)]
        values = chain.from_iterable(part for part, _ in listed)
        there = {place: value for place, value in zip(places.tolist(), values, strict=True) if value is not None}
        records.put_each(list(there), list(there.values()))
        found[list(there)] = True
        certain[places] = np.repeat([is_certain for _, is_certain in listed], answered.parts)
        return found, certain

    def _due_records(
        self, cluster: Cluster, table: PositionTable, rows: Rows, wanted: npt.NDArray[np.int64], replies: Sequence[Any]
    ) -> tuple[SetRecords, Bools]:
        slots = wanted % self._keep_ticks
        foreseen = len(replies) and self._members is table.members and self._early[1] == slots.tobytes()
        question = self._question(table, rows, slots)
        if not foreseen:
            replies = cluster.gather(question.batch.commands[len(self._positions.commands) :])
        return self._records(cluster, question, iter(replies))

    def _question(self, table: PositionTable, rows: Rows, slots: npt.NDArray[np.int64]) -> _Question:
        if self._members is not table.members:
            self._members = table.members
            self._asked.clear()
            self._without = np.setdiff1d(table.hosts, table.hosts[rows])
            self._questions = RecordQuestions([table.members[row] for row in rows.tolist()])
        key = self._alone, slots.tobytes()
        found = self._asked.get(key)
        if found is None:
            if len(self._asked) >= _MOST_QUESTIONS:
                self._asked.clear()
            parts = _parts([table.members[row] for row in rows.tolist()], slots.tolist())
            joint = [(part.joint, ("STRLEN" if self._alone else "GET", part.joint)) for part in parts if part.joint]
            alone = [part.records(range(len(part.members))) for part in parts if self._alone or not part.joint]
            batch = Batch([*self._positions.commands, *joint, *alone])
            found = self._asked[key] = _Question(parts, HostRows(table.hosts[rows]), self._alone, batch)
        return found

    def _records(self, cluster: Cluster, question: _Question, replies: Iterator[Any]) -> tuple[SetRecords, Bools]:
        """The records of all rows, and which of them are certain."""
        joint = [next(replies) if part.joint else None for part in question.parts]
        values: list[bytes | None] = []
        certain: list[bool] = []
        for part, reply in zip(question.parts, joint, strict=True):
            if question.alone or not part.joint:
                found, is_certain = _listed(next(replies), len(part.members))
            else:
                found, is_certain = [None] * len(part.members), not isinstance(reply, ShardpulseError)
            values += found
            certain += [is_certain] * len(found)
        self._note(cluster, question, joint)
        if question.alone:
            return SetRecords(values), np.array(certain, np.bool_)
        data = [reply for reply in joint if isinstance(reply, bytes)]
        records = joined(values, data, question.rows)
        self._ask_alone(cluster, question, records, certain)
        return records, np.array(certain, np.bool_)

    def _note(self, cluster: Cluster, question: _Question, joint: Sequence[Any]) -> None:
        """How to ask the next time; and now and then tell the filters that somebody does."""
        able = [(part.tag, reply) for part, reply in zip(question.parts, joint, strict=True) if part.joint]
        self._alone = 2 * sum(isinstance(reply, (bytes, int)) and bool(reply) for _, reply in able) <= len(able)
        if able and time.monotonic() - self._said >= _SAID_EVERY:
            self._said = time.monotonic()
            sought = [keys.sought(tag) for tag, reply in able if not isinstance(reply, ShardpulseError)]
            cluster.gather([(key, ("SET", key, "1", "EX", str(3 * _SAID_EVERY))) for key in sought])

    def _ask_alone(self, cluster: Cluster, question: _Question, records: SetRecords, certain: list[bool]) -> None:
        """Ask for the records of those that were not among the ones side by side."""
        first, asked = 0, []
        lacking = ~records.known()
        for part in question.parts:
            last = first + len(part.members)
            places = np.flatnonzero(lacking[first:last]).tolist() if part.joint and certain[first] else []
            if places:
                asked.append((part, first, places))
            first = last
        replies = cluster.gather([part.records(places) for part, _, places in asked]) if asked else []
        for (_, first, places), reply in zip(asked, replies, strict=True):
            for place, value in zip(places, _listed(reply, len(places))[0], strict=True):
                records.put(first + place, value)
                certain[first + place] = isinstance(reply, list)


def _read(
    cluster: Cluster, table: PositionTable, rows: Rows, slots: npt.NDArray[np.int64], wanted: Bools, records: SetRecords
) -> tuple[Bools, Bools]:
    """Put in the records of ``rows`` (N,) that are ``wanted`` (N,), where there are any, each of its slot; for whom
    there was one, and who is certain, (N,)."""
    found, certain = np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_)
    places = np.flatnonzero(wanted)
    if not places.size:
        return found, certain
    parts = _parts([table.members[row] for row in rows[places].tolist()], slots[places].tolist())
    replies = cluster.gather([part.records(range(len(part.members))) for part in parts])
    listed = [_listed(reply, len(part.members)) for part, reply in zip(parts, replies, strict=True)]
    values = list(chain.from_iterable(part for part, _ in listed))
    for place, value in zip(places.tolist(), values, strict=True):
        if value is not None:
            records.put(place, value)
    found[places] = [value is not None for value in values]
    certain[places] = np.repeat([is_certain for _, is_certain in listed], [len(part) for part, _ in listed])
    return found, certain


def _parts(members: Sequence[Member], slots: Sequence[int]) -> list[_Part]:
    parts: list[_Part] = []
    for tag, group in groupby(zip(members, slots, strict=True), key=lambda pair: pair[0].tag):
        of_tag, of_slots = zip(*group, strict=True)
        alike = len(of_tag) >= host_records.FEWEST and len(set(of_slots)) == 1 and of_tag[0].resource_set == _OWN
        parts.append(_Part(tag, of_tag, of_slots, keys.hosts(tag, of_slots[0]) if alike else ""))
    return parts


def _listed(reply: Any, size: int) -> tuple[list[bytes | None], bool]:
    """The values of a reply to MGET; they are not certain where a partition is on its way, or its shard down."""
    return (reply, True) if isinstance(reply, list) else ([None] * size, False)
