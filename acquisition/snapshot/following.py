"""Follows what commits change (``acquisition.wire.changes``): the newest positions and records of all hosts, of which
a reading asks only for what has been committed since the last one.

Everything is read once as any reader does. From there on an unbroken chain of entries up to the newest commit says all
that was written since, and a reading is as if everything had been read again. Wherever the chain is broken, a member
is new or gone, or a shard does not answer, nothing is said here, and everything is read again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError
from acquisition.link.cluster import Cluster
from acquisition.snapshot.column import Bools
from acquisition.snapshot.current_blocks import due_ticks
from acquisition.snapshot.judgement import Due
from acquisition.snapshot.moved_records import MovedRecords, newest_of
from acquisition.snapshot.record_arrays import POSITION, Group, Rows, are_positions
from acquisition.snapshot.set_records import HostRows, SetRecords
from acquisition.snapshot.survey import Survey
from acquisition.snapshot.survey_reading import Taken
from acquisition.wire import changes, keys
from acquisition.wire import commit as commit_format
from acquisition.wire.changes import Change
from acquisition.wire.layout import Layout

_OFTEN = 2.0  #: seconds: who asks more rarely does not follow
_SAID_EVERY, _SAID_FOR = 10.0, "30"  #: seconds
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 16.0  #: seconds between two beginnings
_FIGURES = np.dtype([("interval", "<f4"), ("epoch", "<u8"), ("tick", "<i8")])


class At(NamedTuple):
    """How far a partition is followed: up to this ``commit``; what comes behind it is ``since`` this entry."""

    commit: bytes
    since: bytes


class Followed(NamedTuple):
    """A reading, and which of its rows may be others than in the survey ``before`` (N,)."""

    taken: Taken
    before: Survey
    changed: Bools


class _Newest(NamedTuple):
    """The newest of all members: ``data`` are their positions, ``figures`` (M,) what arrays are needed of, and
    ``known`` (M,) whether they are sound; of the resource set that is followed the newest ``records`` by row, and
    whether they are ``there`` (N,)."""

    data: list[bytes]
    figures: npt.NDArray[np.void]
    known: Bools
    records: list[bytes | None]
    there: Bools

    @classmethod
    def of(cls, taken: Taken) -> _Newest:
        """What a reading found."""
        records = [taken.records[place] for place in range(len(taken.rows))]
        there = np.array([record is not None for record in records], np.bool_)
        return cls(list(taken.table.data), _figures_of(taken.table.records), taken.table.known, records, there)

    def copy(self) -> _Newest:
        """One to be written to."""
        data, figures, known, records, there = self
        return _Newest(data.copy(), figures.copy(), known.copy(), records.copy(), there.copy())

    def put(self, records: MovedRecords) -> None:
        """Take the records of rows."""
        listed = self.records
        for row, record in zip(records.even.rows.tolist(), records.even.records(), strict=True):
            listed[row] = record
        for row, record in records.others.items():
            listed[row] = record
        self.there[[*records.even.rows.tolist(), *records.others]] = True


class _Moved(NamedTuple):
    """Which rows have changed (N,), and of these the new records that are of one size."""

    rows: Bools
    even: Group


class _Index(NamedTuple):
    """Where members stand: ``rows`` by their field in the table of positions, ``places`` (M,) of these rows in the
    resource set, -1 for those of others; ``hosts`` tells the places of its hosts."""

    rows: dict[bytes, int]
    places: Rows
    hosts: HostRows

    @classmethod
    def of(cls, taken: Taken) -> _Index:
        """That of a reading."""
        members = taken.table.members
        places = np.full(len(members), -1, np.intp)
        places[taken.rows] = np.arange(len(taken.rows))
        rows = {keys.member(each.host, each.resource_set).encode(): row for row, each in enumerate(members)}
        return cls(rows, places, HostRows(taken.table.hosts[taken.rows]))


class Follower:
    """Follows hosts' own figures; one reader uses it: ``take`` and, where that says nothing, ``anchors`` before
    everything is read and ``begin`` behind it."""

    def __init__(self, layout: Layout) -> None:
        self._tags = layout.tags
        self._commits = [(keys.commit(tag), ("GET", keys.commit(tag))) for tag in layout.tags]
        self._clocks = [(keys.commit(tag), ("TIME",)) for tag in layout.tags]
        self._asked = self._said = self._next = -math.inf  #: by the reader's clock
        self._pause = _FIRST_PAUSE
        self._at: Sequence[At] = ()  #: of each partition; empty while nothing is followed
        self._before: Survey | None = None
        self._late: Bools = np.empty(0, np.bool_)
        self._newest: _Newest | None = None
        self._index = _Index({}, np.empty(0, np.intp), HostRows(np.empty(0, np.uint64)))

    def take(self, cluster: Cluster, due: Due) -> Followed | None:
        """The newest of each host, if that is known. Raises ShardError when no shard answers at all."""
        often = 0.0 <= due.now - self._asked < _OFTEN
        self._asked = due.now
        if not often:
            self._end(self._next)
            return None
        self._say(cluster, due.now)
        if not self._at or self._before is None:
            return None
        ranges = [
            (keys.changes(tag), ("XRANGE", keys.changes(tag), at.since, "+"))
            for tag, at in zip(self._tags, self._at, strict=True)
        ]
        replies = cluster.gather([*self._commits, *ranges])
        count = len(self._tags)
        chains = [chain(*each) for each in zip(self._at, replies[:count], replies[count:], strict=True)]
        found = None if None in chains else self._applied([each for part in chains if part for each in part[0]])
        if found is None:
            self._pause = min(2.0 * self._pause, _LONGEST_PAUSE)
            self._end(due.now + self._pause)
            return None
        self._pause, self._at = _FIRST_PAUSE, [part[1] for part in chains if part]
        self._newest, moved = found
        return self._followed(self._newest, self._before, moved, due)

    def anchors(self, cluster: Cluster, due: Due) -> Sequence[At]:
        """From where on partitions can be followed by who reads everything from now on; empty where nobody is to."""
        if due.now < self._next or self._said < due.now - _SAID_EVERY:
            return ()
        self._next = due.now + self._pause
        replies = cluster.gather([*self._clocks, *self._commits])
        found = [
            At(commit_format.id_of(commit), b"%d-0" % (1000 * int(clock[0]) + int(clock[1]) // 1000))
            for clock, commit in zip(replies[: len(self._tags)], replies[len(self._tags) :], strict=True)
            if isinstance(clock, list) and isinstance(commit, (bytes, type(None)))
        ]
        return found if len(found) == len(self._tags) else ()

    def begin(self, anchors: Sequence[At], survey: Survey) -> None:
        """Follow from what was read behind these ``anchors``, if it is whole."""
        table, taken = survey.taken.table, survey.taken
        if not anchors or survey.errors or table.errors or set(map(len, table.data)) != {POSITION.itemsize}:
            return
        self._newest, self._index = _Newest.of(taken), _Index.of(taken)
        self._at, self._before = anchors, survey
        self._late = np.ones(len(taken.rows), np.bool_)

    def keep(self, survey: Survey) -> None:
        """The survey of what was taken last: of the next one only what has changed is judged."""
        self._before = survey

    def _end(self, until: float) -> None:
        self._at, self._before, self._next = (), None, until

    def _say(self, cluster: Cluster, now: float) -> None:
        """Tell the filters now and then that somebody follows."""
        if not 0.0 <= now - self._said < _SAID_EVERY:
            self._said = now
            sought = [keys.sought(tag) for tag in self._tags]
            cluster.gather([(key, ("SET", key, changes.FOLLOWED, "EX", _SAID_FOR)) for key in sought])

    def _applied(self, entries: Sequence[Change]) -> tuple[_Newest, _Moved] | None:
        """What is newest behind these entries, and what they have changed; None where they are of members who are not
        known, or are none."""
        assert self._newest is not None
        newest, index = self._newest.copy(), self._index
        moved = np.zeros(len(newest.records), np.bool_)
        try:
            members, positions = changes.pairs(b"".join([each.applied for each in entries]))
            rows = [index.rows[member] for member in members]
            records = newest_of([each.records for each in entries if each.records], index.hosts)
        except (FrameError, KeyError):
            return None
        if rows:
            for row, data in zip(rows, positions, strict=True):
                newest.data[row] = data
            found = np.frombuffer(b"".join(positions), POSITION)
            newest.figures[rows], newest.known[rows] = _figures_of(found), are_positions(found)
            places = index.places[rows]
            moved[places[places >= 0]] = True
        newest.put(records)
        moved[[*records.even.rows.tolist(), *records.others]] = True
        return newest, _Moved(moved, records.even)

    def _followed(self, newest: _Newest, before: Survey, moved: _Moved, due: Due) -> Followed:
        last = before.taken
        table = last.table._replace(data=newest.data, records=newest.figures, known=newest.known)
        figures, known = newest.figures[last.rows], newest.known[last.rows]
        intervals, wanted = due_ticks(np.where(known, figures["interval"], 0.0), due)
        punctual = (intervals > 0.0) & (figures["tick"] >= wanted)
        records: list[bytes | None] = newest.records.copy()
        for place in np.flatnonzero(~punctual).tolist():  # what is due may have been written since: it is read anew
            records[place] = None
        even = moved.even.pick(punctual[moved.even.rows])
        taken = last._replace(
            due=due, table=table, ticks=np.where(punctual, figures["tick"], wanted), tick=int(wanted.max(initial=0)),
            intervals=intervals, records=SetRecords(records, copy=even), answered=newest.there & punctual,
        )  # fmt: skip
        changed = moved.rows | ~punctual | self._late
        self._late = ~punctual
        return Followed(taken, before, changed)


def chain(at: At, commit: Any, entries: Any) -> tuple[list[Change], At] | None:
    """The changes behind where a partition was followed to, and how far it is then, if ``entries`` tell of every
    commit up to ``commit``, which was read before them; else None (pure)."""
    if not isinstance(commit, (bytes, type(None))) or not isinstance(entries, list):
        return None
    newest, found, known, since = commit_format.id_of(commit), [], at.commit, at.since
    reached = newest == known
    for entry, fields in entries:
        try:
            change = changes.decode(fields or ())
        except FrameError:
            return None
        since = b"(" + entry
        if change.before == known:
            found.append(change)
            known = change.commit
            reached = reached or newest == known
        elif found:
            return None
    return (found, At(known, since)) if reached else None


def _figures_of(positions: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """What a reading compares of positions, as a small array."""
    found = np.empty(len(positions), _FIGURES)
    for name in _FIGURES.names or ():
        found[name] = positions[name]
    return found
