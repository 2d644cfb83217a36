"""What a snapshot reads from the shards, in few commands: records, heads, names.

Every command touches one partition; ``Cluster.gather`` sends one pipeline to each shard. What a
shard cannot answer comes back as the error that it is, so that it hides nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from acquisition.errors import FrameError, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import ReplyError, error_for
from acquisition.wire import keys
from acquisition.wire.position import Position
from acquisition.wire.records import smoothed

#: Key of a resource set: (host id, resource set id).
Owner = tuple[int, int]


#: A key of a partition, and a command for it.
Command = tuple[str, tuple[str, ...]]
#: Record, absence, or why neither is known.
Value = bytes | None | ShardpulseError
#: Enough of a record for its header, the decision inputs of a host and its id, or the ids of 1,024 entities.
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
            values += map(value_of, cluster.gather([(name, ("GET", name)) for name in names]))
        elif isinstance(reply, list):
            values += reply
        else:
            values += [value_of(reply)] * len(names)
    return values


def read_heads(
    cluster: Cluster, wanted: Sequence[tuple[Member, int]]
) -> list[tuple[smoothed.Head, bytes] | ShardpulseError | None]:
    """Header and ids alone of the records of (member, slot) pairs; None where there is no record."""
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


def read_names(cluster: Cluster, members: Sequence[Member]) -> list[Value]:
    """The tables of members as bytes."""
    return [value_of(reply) for reply in cluster.gather(names_commands(members))]


def names_commands(members: Sequence[Member]) -> list[Command]:
    """What asks for them."""
    names = [keys.names(member.tag, member.host, member.resource_set) for member in members]
    return [(name, ("GET", name)) for name in names]


def value_of(reply: Any) -> Any:
    """A reply, or the error that it is."""
    return error_for(reply) if isinstance(reply, ReplyError) else reply
