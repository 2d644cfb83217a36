"""Records of members, read in few commands and compared with the due tick.

Every command touches one partition; ``Cluster.gather`` sends one pipeline to each shard. A failure of a shard
is returned as an error value, so that it hides nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from acquisition.errors import DataError, FrameError, PermissionRefused, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import ReplyError
from acquisition.model import ticks
from acquisition.snapshot.values.block import Begun, Block
from acquisition.snapshot.values.members import Member, Owner, Place, Value, value_of
from acquisition.snapshot.values.names import SOON, Names, NamesCache
from acquisition.snapshot.values.recent import RecentTable, recent_of
from acquisition.snapshot.values.states import CURRENT, LATE
from acquisition.wire import keys
from acquisition.wire.layout import Layout
from acquisition.wire.records import smoothed

#: Enough of a record for its header, the decision inputs of a host and its id, or the ids of 1,024 entities.
_HEAD_BYTES = smoothed.HEADER_SIZE + 8 * 1024
_LOOKED_EVERY = 1.0  #: seconds between two checks for old names


def read_records(cluster: Cluster, wanted: Sequence[tuple[Member, int]]) -> list[Value]:
    """Records of (member, slot) pairs, in order; pairs of one partition must be adjacent."""
    groups: list[tuple[str, list[str]]] = []
    for member, slot in wanted:
        if not groups or groups[-1][0] != member.tag:
            groups.append((member.tag, []))
        groups[-1][1].append(f"{member.prefix}{slot}")
    replies = cluster.gather([(names[0], ("MGET", *names)) for _, names in groups])
    values: list[Value] = []
    for (_, names), reply in zip(groups, replies, strict=True):
        if isinstance(reply, ReplyError) and str(reply).startswith("TRYAGAIN"):
            # the partition is being moved to another shard: its keys are partly here, partly there
            values += map(value_of, cluster.gather([(name, ("GET", name)) for name in names]))
        elif isinstance(reply, list):
            values += reply
        else:
            values += [value_of(reply)] * len(names)
    return values


def read_heads(
    cluster: Cluster, wanted: Sequence[tuple[Member, int]]
) -> list[tuple[smoothed.Head, bytes] | ShardpulseError | None]:
    """Only header and ids of the records of (member, slot) pairs; None if there is no record."""
    names = [f"{member.prefix}{slot}" for member, slot in wanted]
    replies = cluster.gather([(name, ("GETRANGE", name, 0, _HEAD_BYTES - 1)) for name in names])
    heads: list[tuple[smoothed.Head, bytes] | ShardpulseError | None] = []
    for name, reply in zip(names, map(value_of, replies), strict=True):
        if isinstance(reply, ShardpulseError):
            heads.append(reply)
            continue
        try:
            data = reply if isinstance(reply, bytes) else b""
            head = smoothed.unpack_head(data)
            if head.planes_at > len(data):
                rest = value_of(cluster.gather([(name, ("GETRANGE", name, 0, head.planes_at - 1))])[0])
                data = rest if isinstance(rest, bytes) else data
                head = smoothed.unpack_head(data)
            ids = data[head.ids_at : head.planes_at]
            heads.append((head, ids) if len(ids) == 8 * head.entities else None)
        except FrameError:
            heads.append(None)
    return heads


def read_recent(cluster: Cluster, layout: Layout, owners: Sequence[Owner]) -> dict[Owner, RecentTable]:
    """Recent values of resource sets; those that cannot be read, are damaged, or have none, are absent.

    Raises ShardError if no shard answers at all.
    """
    names = [keys.recent(layout.tag_of(host), host, resource_set) for host, resource_set in owners]
    replies = cluster.gather([(name, ("GET", name)) for name in names])
    tables = ((owner, recent_of(reply)) for owner, reply in zip(owners, replies, strict=True))
    return {owner: table for owner, table in tables if table is not None}


# -- Judgement of one record: the requested tick, or the reason for its absence (pure).


class Due(NamedTuple):
    """Due ticks at one moment: ``now`` is the reader's clock, seconds since 1970."""

    now: float
    grace: float
    keep_ticks: int

    def tick(self, interval: float) -> int:
        """The newest tick of an interval that must have arrived."""
        return ticks.coherent_tick(self.now, interval, ticks.usable_grace(self.grace, interval, self.keep_ticks))


def begin(member: Member, place: Place) -> Block:
    """Block of a member, late until a record is found; with a reason if none is wanted."""
    block = Block(member.host, member.resource_set, place.position)
    if place.error is not None:
        block.delay = str(place.error)
        block.damage = place.error.reason if isinstance(place.error, FrameError) else ""
        block.unreachable = not block.damage
    elif not 0 < block.interval < float("inf"):
        block.delay = "no samples yet"
    else:
        block.interval = ticks.exact_interval(block.interval)
    return block


def judge_coherent(block: Block, value: Value, tick: int, due: Due) -> None:  # noqa: ARG001 - one signature for all
    """Set the values of ``block`` to those of exactly ``tick``, or the reason it has none.

    A record made more than an interval before its own tick began comes from a host
    whose clock is ahead: the tick number does not show when it was sampled.
    """
    head = _head(block, value, tick)
    if head is None or block.position is None:
        return
    current_epoch = head.epoch == block.position.epoch
    if current_epoch and head.filtered < (head.tick - 1) * block.interval:
        block.delay = f"the host's clock is {head.wall - head.filtered:.1f} s ahead"
    elif not current_epoch or head.tick != tick:
        block.delay = _absence(block.position.tick, tick)
    else:
        _take(block, head, value)
        block.state = CURRENT


def judge_latest(block: Block, value: Value, tick: int, due: Due) -> None:
    """Set the newest values of ``block``; it is current if it is not behind the due tick.

    A record newer than the position, of the same epoch, was committed between the two reads.
    """
    head = _head(block, value, tick)
    if head is None or block.position is None:
        return
    if head.epoch != block.position.epoch or (head.sequence < block.position.sequence and head.tick != tick):
        block.delay = "newest record is of another tick"
        return
    _take(block, head, value)
    expected = due.tick(block.interval)
    if head.tick >= expected and head.filtered >= (expected - 1) * block.interval:
        block.state = CURRENT
    else:
        block.delay = _absence(head.tick, expected)
        explain_delay(block)


def judge_newest(block: Block, value: Value, tick: int, due: Due) -> None:
    """As ``judge_latest``, but a host whose clock is ahead is late: the number of its tick has no meaning."""
    judge_latest(block, value, tick, due)
    if block.state == CURRENT and block.filtered < (block.tick - 1) * block.interval:
        block.state, block.delay = LATE, f"the host's clock is {block.wall - block.filtered:.1f} s ahead"


def remember(block: Block, value: Value) -> None:
    """Keep the newest record of a block without values as evidence of the past."""
    if not isinstance(value, bytes) or block.position is None:
        return
    try:
        record = smoothed.decode(value)
    except FrameError:
        return
    if (record.host, record.resource_set, record.epoch) == (block.host_id, block.set_id, block.position.epoch):
        block.past = record


def explain_delay(block: Block) -> None:
    """Note in a late block that its samples do arrive, but long after their time."""
    delay = block.filtered - block.wall
    if delay > 2 * block.interval:
        block.delay += f"; samples arrive {delay:.1f} s late (clock or backlog)"


def _head(block: Block, value: Value, tick: int) -> smoothed.Head | None:
    """The checked header of a value, or None after noting the reason in ``block``."""
    if isinstance(value, ShardpulseError):
        block.delay, block.unreachable = str(value), True
        return None
    if value is None:
        block.delay = _absence(block.tick, tick, "has expired")
        return None
    try:
        head = smoothed.check(value)
    except FrameError as error:
        block.damage, block.delay = error.reason, f"unreadable record: {error}"
        return None
    if (head.host, head.resource_set) != (block.host_id, block.set_id):
        block.damage, block.delay = "shape", "unreadable record: belongs to another host"
        return None
    return head


def _take(block: Block, head: smoothed.Head, value: Value) -> None:
    if isinstance(value, bytes):
        block.take(head, value)


def _absence(newest: int, tick: int, same: str = "is of an older epoch") -> str:
    if newest < tick:
        return f"{tick - newest} behind tick {tick}"
    if newest > tick:
        return f"tick {tick} was missed or expired; the newest is {newest}"
    return f"tick {tick} {same}"


# -- Names.


class Naming:
    """The names known to a reader, and those requested by its next reading. For one reader."""

    def __init__(self) -> None:
        self._cache = NamesCache()
        self._looked = 0.0
        self._outdated: dict[Member, None] = {}  #: in the order found

    def renew(self, cluster: Cluster, now: float) -> list[ShardpulseError]:
        """Read the names left over by earlier readings. Returns which tables are damaged."""
        members, self._outdated = list(self._outdated), {}
        return self._ask(cluster, members, now)

    def name(
        self, cluster: Cluster, begun: Sequence[Begun], taken: Sequence[Begun], now: float, whole: bool
    ) -> list[str]:
        """Name all blocks; missing and old names of taken ones are read: at once, or, if the
        reading is ``whole`` and the next one will do, with that. Returns which tables are damaged."""
        wanted: list[Member] = []
        for member, block in taken:
            schema = block.schema if block.has_values or block.head else None
            when = self._cache.wanted(member.host, member.resource_set, block.raw_ids, schema, now)
            if when == SOON and whole:
                self._outdated[member] = None
            elif when:
                wanted.append(member)
        errors = self._ask(cluster, wanted, now)
        for _, block in begun:
            names = self._cache.get(block.host_id, block.set_id)
            block.use_names(names, None if names is not None else self._cache.set_name(block.set_id))
        return [str(error) for error in errors]

    def all_of(self, members: Sequence[Member]) -> Sequence[Names | None]:
        """Known names of each member: for the same members the same sequence, as long as nothing has changed."""
        return self._cache.all_of(members)

    def note_outdated(self, members: Iterable[Member], names: Iterable[Names | None], now: float) -> None:
        """Schedule the old ones of these names for the next reading; once a second."""
        if not 0.0 <= now - self._looked < _LOOKED_EVERY:
            self._looked = now
            self._outdated |= dict.fromkeys(self._cache.outdated(members, names, now))

    def suffices(self, member: Member, block: Block) -> bool:
        """Whether everything in a block has a name."""
        names = self._cache.get(member.host, member.resource_set)
        return names is not None and (not block.has_values or names.knows(block.raw_ids, block.schema))

    def forget(self, present: set[Owner]) -> None:
        """Forget the names of all but these."""
        self._cache.forget(present)

    def _ask(self, cluster: Cluster, members: Sequence[Member], now: float) -> list[ShardpulseError]:
        """Process the tables of members; damaged or unreadable ones are reported, and change nothing."""
        if not members:
            return []
        errors: list[ShardpulseError] = []
        names = [keys.names(member.tag, member.host, member.resource_set) for member in members]
        replies = cluster.gather([(name, ("GET", name)) for name in names])
        for member, value in zip(members, map(value_of, replies), strict=True):
            if isinstance(value, PermissionRefused):
                errors.append(value)
            elif value is None or isinstance(value, bytes):
                error = self._cache.put(member.host, member.resource_set, value, now)
                errors += [DataError(f"names of host {member.host:016x}: {error}")] if error else []
        return errors
