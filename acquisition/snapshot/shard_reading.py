"""What a snapshot reads from the shards, in few commands: positions, records, heads, names.

Every command touches one partition; ``Cluster.gather`` sends one pipeline to each shard. What a
shard cannot answer comes back as the error that it is, so that it hides nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from acquisition.errors import FrameError, PermissionRefused, ShardpulseError
from acquisition.link.cluster import Cluster, Layout
from acquisition.link.resp import ReplyError, error_for
from acquisition.wire import keys, position, smoothed
from acquisition.wire.position import Position

#: Record, absence, or why neither is known.
Value = bytes | None | ShardpulseError
#: Enough of a record for its header and the ids of 1,024 entities.
_HEAD_BYTES = smoothed.HEADER_SIZE + 8 * 1024


class Member(NamedTuple):
    """One (host, resource set) as the shards know it; ``prefix`` is its smoothed key without the slot."""

    tag: str
    host: int
    resource_set: int
    prefix: str


class Place(NamedTuple):
    """What is known of a member: its newest known position, and the error if that is not of this reading."""

    position: Position | None
    error: ShardpulseError | None


class PositionReader:
    """Reads the applied positions of all partitions.

    It remembers the positions of a partition, so that its hosts stay in the snapshot as late
    when the partition's shard cannot be reached.
    """

    def __init__(self, layout: Layout) -> None:
        self._tags = layout.tags
        self._commands = [(keys.applied(tag), ("HGETALL", keys.applied(tag))) for tag in layout.tags]
        self._members: dict[tuple[str, bytes], Member] = {}
        self._known: dict[str, dict[Member, Place]] = {}

    def read(self, cluster: Cluster) -> tuple[dict[Member, Place], list[ShardpulseError]]:
        """Places by member, and the errors that are no member's own.

        Raises the error itself when no partition at all can be read, or when credentials are refused.
        """
        answers = [_value(reply) for reply in cluster.gather(self._commands)]
        failures = {str(answer): answer for answer in answers if isinstance(answer, ShardpulseError)}
        for failure in failures.values():
            if isinstance(failure, PermissionRefused) or all(isinstance(a, ShardpulseError) for a in answers):
                raise failure
        found: dict[Member, Place] = {}
        errors = list(failures.values())
        for tag, answer in zip(self._tags, answers, strict=True):
            if isinstance(answer, ShardpulseError):
                known = self._known.get(tag, {})
                found.update((member, place._replace(error=answer)) for member, place in known.items())
                continue
            self._known[tag], damaged = self._decode(tag, answer)
            found.update(self._known[tag])
            errors += damaged
        if len(self._members) > 2 * len(found) + 1024:  # hosts that came and went
            self._members.clear()
        return found, errors

    def _decode(self, tag: str, answer: list[bytes]) -> tuple[dict[Member, Place], list[FrameError]]:
        found: dict[Member, Place] = {}
        damaged: list[FrameError] = []
        for field, data in zip(answer[::2], answer[1::2], strict=True):
            member = self._members.get((tag, field)) or self._member(tag, field)
            if member is None:
                damaged.append(FrameError("payload", f"{keys.applied(tag)} has a field {field!r}: no HOST:SET"))
                continue
            try:
                found[member] = Place(position.decode(data), None)
            except FrameError as error:
                found[member] = Place(None, error)
        return found, damaged

    def _member(self, tag: str, field: bytes) -> Member | None:
        host, _, resource_set = field.partition(b":")
        try:
            numbers = int(host, 16), int(resource_set, 16)
        except ValueError:
            return None
        if keys.member(*numbers).encode() != field:
            return None
        prefix = keys.smoothed(tag, *numbers, 0)[:-1]
        member = self._members[tag, field] = Member(tag, *numbers, prefix)
        return member


def read_records(cluster: Cluster, wanted: Sequence[tuple[Member, int]]) -> list[Value]:
    """The records of (member, slot) pairs, in order; pairs of one partition must be adjacent."""
    groups: list[tuple[str, list[str]]] = []
    for member, slot in wanted:
        if not groups or groups[-1][0] != member.tag:
            groups.append((member.tag, []))
        groups[-1][1].append(f"{member.prefix}{slot}")
    replies = cluster.gather([(names[0], ("MGET", *names)) for _, names in groups])
    values: list[Value] = []
    for (_, names), reply in zip(groups, replies, strict=True):
        if isinstance(reply, ReplyError) and str(reply).startswith("TRYAGAIN"):
            # the partition is on its way to another shard: part of its keys are here, part there
            values += map(_value, cluster.gather([(name, ("GET", name)) for name in names]))
        elif isinstance(reply, list):
            values += reply
        else:
            values += [_value(reply)] * len(names)
    return values


def read_heads(cluster: Cluster, wanted: Sequence[tuple[Member, int]]) -> list[tuple[smoothed.Head, bytes] | None]:
    """Header and ids alone of the records of (member, slot) pairs; None where there is no record."""
    names = [f"{member.prefix}{slot}" for member, slot in wanted]
    replies = cluster.gather([(name, ("GETRANGE", name, 0, _HEAD_BYTES - 1)) for name in names])
    heads: list[tuple[smoothed.Head, bytes] | None] = []
    for name, reply in zip(names, replies, strict=True):
        try:
            data = reply if isinstance(reply, bytes) else b""
            head = smoothed.unpack_head(data)
            if head.planes_at > len(data):
                rest = _value(cluster.gather([(name, ("GETRANGE", name, 0, head.planes_at - 1))])[0])
                data = rest if isinstance(rest, bytes) else data
                head = smoothed.unpack_head(data)
            ids = data[smoothed.HEADER_SIZE : head.planes_at]
            heads.append((head, ids) if len(ids) == 8 * head.entities else None)
        except FrameError:
            heads.append(None)
    return heads


def read_names(cluster: Cluster, members: Sequence[Member]) -> list[Value]:
    """The tables of members as bytes."""
    names = [keys.names(member.tag, member.host, member.resource_set) for member in members]
    return [_value(reply) for reply in cluster.gather([(name, ("GET", name)) for name in names])]


def _value(reply: Any) -> Any:
    return error_for(reply) if isinstance(reply, ReplyError) else reply
