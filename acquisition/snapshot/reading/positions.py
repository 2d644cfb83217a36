"""Applied positions of all partitions: singly, and as arrays for sound ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError, PermissionRefused, ShardError, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.snapshot.values.members import Member, Place, value_of
from acquisition.snapshot.visibility.roster import KEPT, LOST
from acquisition.wire import keys, position
from acquisition.wire.layout import Layout

_MOST_REASONS = 3  #: named by a reading if no partition can be read

#: A position record (acquisition.wire.position); ``counts`` are fields not used in this module.
POSITION = np.dtype(
    [
        ("version", "u1"), ("flags", "u1"), ("gaps", "<u2"), ("interval", "<f4"), ("epoch", "<u8"),
        ("sequence", "<u8"), ("tick", "<i8"), ("wall", "<f8"), ("counts", "<u8", (9,)), ("lost_tick", "<i8"),
    ]
)  # fmt: skip


def positions_of(data: Sequence[bytes]) -> tuple[npt.NDArray[np.void], npt.NDArray[np.bool_]]:
    """Position records of dtype POSITION (N,), and a mask of those that are valid and of this version."""
    size = POSITION.itemsize
    whole = np.fromiter(map(len, data), np.intp, len(data)) == size
    if not whole.all():
        data = [each if len(each) == size else bytes(size) for each in data]
    records = np.frombuffer(b"".join(data), POSITION, len(data))
    return records, whole & are_positions(records)


def are_positions(records: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Boolean mask of POSITION records that are valid and of this version, shape (N,)."""
    counts = records["counts"].max(axis=1, initial=0) | records["sequence"]
    good = (records["version"] == position.VERSION) & (counts < position.MOST)
    good &= np.isfinite(records["wall"]) & (records["interval"] >= 0) & np.isfinite(records["interval"])
    return np.asarray(good)


#: Returns which of these members of one partition have expired, or were forgotten on purpose.
Dormant = Callable[[Sequence[Member]], Set[Member]]


class Held(NamedTuple):
    """Kept reply of a partition: ``members`` in the order of their position records ``data``; ``error`` if
    this is an earlier answer and now it cannot be reached; ``damaged`` are fields that belong to no member. The last
    ``lost`` members were there a moment ago, with their positions of then."""

    members: Sequence[Member]
    data: Sequence[bytes]
    error: ShardpulseError | None
    damaged: Sequence[FrameError]
    lost: int = 0

    def errors(self, first: int) -> dict[int, ShardpulseError]:
        """Why positions are not of this reading, by row; its own rows begin at ``first``."""
        if self.error is not None:
            return dict.fromkeys(range(first, first + len(self.data)), self.error)
        return dict.fromkeys(range(first + len(self.data) - self.lost, first + len(self.data)), LOST)


class PositionTable(NamedTuple):
    """All positions side by side, in the order of partitions: arrays (M,).

    ``hosts`` uint64, ``sets`` uint32, ``data`` the raw records, ``records`` of dtype
    ``POSITION``; ``known`` is False if a record is invalid, of another version, or not from this
    reading, with ``errors`` by row.
    """

    errors: Mapping[int, ShardpulseError]
    members: Sequence[Member]
    hosts: npt.NDArray[np.uint64]
    sets: npt.NDArray[np.uint32]
    data: Sequence[bytes]
    records: npt.NDArray[np.void]
    known: npt.NDArray[np.bool_]

    def all_places(self) -> list[tuple[Member, Place]]:
        """All of them, decoded."""
        return self.places(range(len(self.members)))

    def places(self, rows: Sequence[int]) -> list[tuple[Member, Place]]:
        """Some of them, decoded."""
        return [(self.members[row], self._place(row)) for row in rows]

    def _place(self, row: int) -> Place:
        error = self.errors.get(row)
        try:
            return Place(position.decode(self.data[row]), error)
        except FrameError as damage:
            return Place(None, error or damage)


class _Order(NamedTuple):
    """Members of all partitions: unchanged as long as none comes or goes."""

    partitions: list[Sequence[Member]]
    members: list[Member]
    hosts: npt.NDArray[np.uint64]
    sets: npt.NDArray[np.uint32]


class _Even(NamedTuple):
    """All partitions have answered these ``fields``, each this many, and all are members."""

    sizes: list[int]
    fields: list[bytes]


class PositionReader:
    """Reads the applied positions of all partitions.

    It remembers the positions of a partition, so that its hosts stay in the snapshot as late
    if the partition's shard cannot be reached, or has come back empty.
    """

    def __init__(self, layout: Layout) -> None:
        self._tags = layout.tags
        self._fields: dict[str, tuple[list[bytes], Held]] = {}
        self._even: _Even | None = None
        self._newest: Sequence[bytes] = ()  #: records answered since ``_fields`` were, all unchanged
        self._order = _Order([], [], np.empty(0, np.uint64), np.empty(0, np.uint32))

    def take(
        self,
        replies: Sequence[Any],
        now: float,
        dormant: Dormant = lambda _: frozenset(),
    ) -> tuple[PositionTable, list[ShardpulseError]]:
        """Table of the positions in the replies of all partitions to HGETALL, and the errors of no single member.
        ``dormant`` is asked only for members that are gone.

        Raises the error of one shard if no partition can be read, PermissionRefused if any of them refuses.
        """
        if (data := self._as_before(replies)) is not None:
            self._newest = data
            return self._table(self._order, data, *positions_of(data), {}), []
        self._catch_up()
        answers = [value_of(reply) for reply in replies]
        failures = {str(answer): answer for answer in answers if isinstance(answer, ShardpulseError)}
        if failures and all(isinstance(answer, ShardpulseError) for answer in answers):
            # of two shards, one is gone and the other reports the lack of a majority
            first = next((each for each in answers if isinstance(each, PermissionRefused)), answers[0])
            raise type(first)("; ".join([*failures][:_MOST_REASONS]))
        unseen = [tag for tag, answer in zip(self._tags, answers, strict=True) if self._is_unseen(tag, answer)]
        held = [self._hold(tag, answer, now, dormant) for tag, answer in zip(self._tags, answers, strict=True)]
        if not failures and not any(each.damaged or each.lost for each in held):
            fields = [self._fields[tag][0] for tag in self._tags]
            self._even = _Even([2 * len(part) for part in fields], list(chain.from_iterable(fields)))
        damaged = [error for each in held if each.error is None for error in each.damaged]
        starts = accumulate((len(each.data) for each in held), initial=0)
        wrong = {
            row: error for first, each in zip(starts, held, strict=False) for row, error in each.errors(first).items()
        }
        data = [record for each in held for record in each.data]
        order, (records, known) = self._ordered([each.members for each in held]), positions_of(data)
        known[list(wrong)] = False
        errors = [*failures.values(), *([_unseen(len(unseen), len(self._tags))] if unseen else []), *damaged]
        return self._table(order, data, records, known, wrong), errors

    def _as_before(self, replies: Sequence[Any]) -> list[bytes] | None:
        """Records of all members, if these are unchanged."""
        even = self._even
        if even is None or any(type(reply) is not list for reply in replies) or list(map(len, replies)) != even.sizes:
            return None
        flat = list(chain.from_iterable(replies))
        return flat[1::2] if flat[::2] == even.fields else None

    def _catch_up(self) -> None:
        first = 0
        for tag in self._tags if self._newest else ():
            fields, known = self._fields[tag]
            self._fields[tag] = fields, known._replace(data=self._newest[first : first + len(fields)])
            first += len(fields)
        self._even, self._newest = None, ()

    def _table(
        self, order: _Order, data: Sequence[bytes], records: npt.NDArray[np.void], known: npt.NDArray[np.bool_],
        wrong: Mapping[int, ShardpulseError],
    ) -> PositionTable:  # fmt: skip
        return PositionTable(wrong, order.members, order.hosts, order.sets, data, records, known)

    def _hold(
        self, tag: str, answer: list[bytes] | ShardpulseError, now: float,
        dormant: Dormant,
    ) -> Held:  # fmt: skip
        """Positions of a partition: from this reading, or an earlier one."""
        fields, known = self._fields.get(tag, ([], Held((), (), None, ())))
        if isinstance(answer, ShardpulseError):
            return known._replace(error=answer)
        if fields == (asked := answer[::2]) and not known.damaged and not known.lost:
            held = Held(known.members, answer[1::2], None, ())
        else:
            held = _with_lost(_members(tag, answer), known, now, dormant)
        self._fields[tag] = (asked, held)
        return held

    def _is_unseen(self, tag: str, answer: object) -> bool:
        """Whether this reader does not know, and has never known, the hosts of a partition."""
        return isinstance(answer, ShardpulseError) and tag not in self._fields

    def _ordered(self, partitions: list[Sequence[Member]]) -> _Order:
        before = self._order.partitions
        if len(before) != len(partitions) or any(a is not b for a, b in zip(before, partitions, strict=True)):
            members = [member for part in partitions for member in part]
            hosts = np.array([member.host for member in members], np.uint64)
            sets = np.array([member.resource_set for member in members], np.uint32)
            self._order = _Order(partitions, members, hosts, sets)
        return self._order


def _unseen(count: int, partitions: int) -> ShardError:
    return ShardError(f"an unknown number of hosts is missing: {count} of {partitions} partitions have never been read")


def _members(tag: str, answer: list[bytes]) -> Held:
    """Members named by a partition, with their records."""
    members, data, damaged = [], [], []
    for field, record in zip(answer[::2], answer[1::2], strict=True):
        member = _member(tag, field)
        if member is None:
            damaged.append(FrameError("payload", f"{keys.applied(tag)}: invalid field {field!r}, expected HOST:SET"))
        else:
            members.append(member)
            data.append(record)
    return Held(members, data, None, damaged)


def dormant_of(cluster: Cluster, members: Sequence[Member]) -> Set[Member]:
    """Members of one partition that have expired in the filter, or were forgotten on purpose."""
    key = keys.dormant(members[0].tag)
    fields = (keys.member(member.host, member.resource_set) for member in members)
    (reply,) = map(value_of, cluster.gather([(key, ("HMGET", key, *fields))]))
    found = reply if isinstance(reply, list) else [None] * len(members)
    return {member for member, data in zip(members, found, strict=True) if data is not None}


def _with_lost(found: Held, before: Held, now: float, dormant: Dormant) -> Held:
    """The reply with those members that are gone although present a moment ago: their shard has lost them."""
    there = set(found.members)
    gone = [pair for pair in zip(before.members, before.data, strict=True) if pair[0] not in there]
    lost = [(member, data) for member, data in gone if _is_recent(data, now)]
    left = dormant([member for member, _ in lost]) if lost else frozenset()
    lost = [pair for pair in lost if pair[0] not in left]
    if not lost:
        return found
    members, data = zip(*lost, strict=True)
    return Held([*found.members, *members], [*found.data, *data], None, found.damaged, len(lost))


def _is_recent(data: bytes, now: float) -> bool:
    try:
        return abs(now - position.decode(data).wall) < KEPT
    except FrameError:
        return False


def _member(tag: str, field: bytes) -> Member | None:
    named = keys.parse_member(field)
    return None if named is None else Member(tag, *named, keys.smoothed(tag, *named, 0)[:-1])
