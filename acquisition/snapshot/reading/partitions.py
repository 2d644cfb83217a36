"""Cached partition replies, read again only after a new commit.

Everything a filter keeps of a partition is written in commits, and each commit leaves a fresh random id. So a
repeated reading asks for the ids first, and then for whole partitions only if the id has changed. When a tick
has become due, all records have changed: then everything is read at once, in one pipeline per shard.

The id is read before the rest of a partition, from the same shard: kept data are never older than their id. Ids
are compared for equality only. A partition that holds data without an id, is being moved to another shard, or could
not be read completely is read again every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Batch, Cluster, Command
from acquisition.link.resp import ReplyError
from acquisition.model import ticks
from acquisition.snapshot.reading.records import Due
from acquisition.snapshot.values.members import Member
from acquisition.wire import keys
from acquisition.wire.layout import Layout

#: A slot, and its value in the shards.
Slotted = tuple[int, bytes | None]
#: A member and the seconds between two of its ticks.
Paced = tuple[Member, float]
_NEVER = b"never"  #: in place of the commit id of a partition to which no filter has ever written
_PLAIN = frozenset((bytes, list, type(None)))  #: types of replies other than errors
_MOST_BATCHES = 8  #: to keep: one for each slot, and some for mixtures


class Answer(NamedTuple):
    """Reply of a partition. ``commit`` is b"" if the rest must not be reused later; ``applied`` is the
    reply to HGETALL or an error, ``records`` that to MGET of the ``asked`` (member, slot), None if none were asked."""

    commit: bytes
    applied: Any
    asked: Sequence[tuple[Member, int]] = ()
    records: Any = None


class _Question(NamedTuple):
    """Records requested from a partition, and the whole request."""

    asked: Sequence[tuple[Member, int]]
    commands: list[Command]


class PartitionReader:
    """Repeats the question of the last reading: the positions of all partitions, and the records wanted
    then, of the tick due now."""

    def __init__(self, layout: Layout) -> None:
        self._tags = layout.tags
        self._commits = Batch([(keys.commit(tag), ("GET", keys.commit(tag))) for tag in layout.tags])
        self._whose: object = None
        self._paced: Sequence[Paced] = ()
        self._intervals: tuple[float, ...] = ()
        self._asked: dict[tuple[int, ...], list[_Question]] = {}
        self._batches: dict[tuple[int, ...], Batch] = {}
        self._due: tuple[int, ...] = ()
        self._same: list[Any] | None = None  #: the ids at the last reading without changes
        self.answers: list[Answer] = []

    def read(self, cluster: Cluster, whose: object, due: Due) -> bool:
        """Read the ``answers``, one for each partition; False if nothing has changed since the last time.

        ``whose`` distinguishes questions: for another one only the positions are read. Raises ShardError if no shard
        answers at all.
        """
        if whose != self._whose:
            self._whose, self._paced, self._intervals, self.answers = whose, (), (), []
            self._batches.clear()
            self._asked.clear()
        now = tuple(due.tick(interval) for interval in self._intervals)
        slots = tuple(ticks.slot_of(tick, due.keep_ticks) for tick in now)
        changed: Sequence[int] = range(len(self._tags))
        failed: Mapping[int, ShardpulseError] = {}
        held = self.answers if now == self._due else []
        if any(answer.commit for answer in held):
            commits = cluster.ask(self._commits)
            if commits == self._same:
                return False
            changed, failed = self._changed(commits, held)
            self._same = None if changed or failed else commits
        else:
            self._same = None
        if not changed and not failed:
            return False
        wanted = [number for number in changed if number not in failed]
        # if no shard answers any more the map is read again, which shows whether there are shards at all
        found = self._ask(cluster, slots, wanted) if wanted or len(failed) == len(self._tags) else {}
        self.answers = [
            Answer(b"", failed[number]) if number in failed else found.get(number, answer)
            for number, answer in enumerate(held or [Answer(b"", None)] * len(self._tags))
        ]
        self._due = now
        return True

    def remember(self, paced: list[Paced], intervals: set[float], due: Due) -> None:
        """Note the members whose records this reading has requested, those of a partition adjacent, and all intervals
        of its ticks."""
        found = tuple(sorted(intervals))
        if paced != self._paced or found != self._intervals:
            self._paced, self._intervals = paced, found
            self._due = tuple(due.tick(interval) for interval in found)
            self._batches.clear()
            self._asked.clear()

    def values(self, members: Sequence[Member]) -> list[bytes | None]:
        """Records received for ``members``, which are all members in the order of partitions; None if there was
        none. Whether a record is theirs, and of which tick, is in the record."""
        parts = [answer.records for answer in self.answers if answer.asked]
        if all(isinstance(part, list) for part in parts):
            flat = list(chain.from_iterable(parts))
            if len(flat) == len(members):
                return flat
        known = self.records()
        return [known[member.prefix][1] if member.prefix in known else None for member in members]

    def records(self) -> dict[str, Slotted]:
        """Received records by the prefix of their member."""
        found: dict[str, Slotted] = {}
        for answer in self.answers:
            if isinstance(answer.records, list):
                for (member, slot), value in zip(answer.asked, answer.records, strict=True):
                    found[member.prefix] = (slot, value)
        return found

    def _changed(
        self, commits: Sequence[Any], answers: Sequence[Answer]
    ) -> tuple[list[int], dict[int, ShardpulseError]]:
        """Partitions with another commit than in ``answers``, and those that cannot be read."""
        failed = {number: reply for number, reply in enumerate(commits) if isinstance(reply, ShardpulseError)}
        pairs = enumerate(zip(commits, answers, strict=True))
        return [
            number for number, (reply, held) in pairs if not held.commit or (reply or _NEVER) != held.commit
        ], failed

    def _ask(self, cluster: Cluster, slots: tuple[int, ...], partitions: Sequence[int]) -> dict[int, Answer]:
        asked = self._wanted(slots)
        if len(partitions) == len(asked):
            batch = self._batches.get(slots)
            if batch is None:
                batch = self._batches[slots] = Batch([command for part in asked for command in part.commands])
        else:
            batch = Batch([command for number in partitions for command in asked[number].commands])
        replies, found, at = cluster.ask(batch), {}, 0
        sound = _PLAIN.issuperset(map(type, replies))
        for number in partitions:
            part = asked[number]
            found[number] = _answer(cluster, part, replies[at : at + len(part.commands)], sound)
            at += len(part.commands)
        return found

    def _wanted(self, slots: tuple[int, ...]) -> list[_Question]:
        """Question to each partition."""
        if slots not in self._asked:
            if len(self._asked) >= _MOST_BATCHES:
                self._asked.clear()
                self._batches.clear()
            place = dict(zip(self._intervals, slots, strict=True))
            by_tag = {
                tag: [(member, place[interval]) for member, interval in part]
                for tag, part in groupby(self._paced, key=lambda pair: pair[0].tag)
            }
            self._asked[slots] = [_question(tag, by_tag.get(tag, ())) for tag in self._tags]
        return self._asked[slots]


def _question(tag: str, asked: Sequence[tuple[Member, int]]) -> _Question:
    commit, applied = keys.commit(tag), keys.applied(tag)
    commands: list[Command] = [(commit, ("GET", commit)), (applied, ("HGETALL", applied))]
    if asked:
        names = [f"{member.prefix}{slot}" for member, slot in asked]
        commands.append((names[0], ("MGET", *names)))
    return _Question(asked, commands)


def _answer(cluster: Cluster, question: _Question, replies: Sequence[Any], sound: bool) -> Answer:
    """Answer in the ``replies``; ``sound`` if it is known that no error is among them."""
    sound = sound or not any(isinstance(reply, (ReplyError, ShardpulseError)) for reply in replies)
    if not sound and any(isinstance(reply, ReplyError) for reply in replies):
        replies = cluster.gather(question.commands)  # it has moved, or is being moved
    commit, applied, *records = replies
    if not commit and not applied:
        commit = _NEVER
    return Answer(commit if sound and commit else b"", applied, question.asked, records[0] if records else None)
