"""Members: the resource sets of hosts as the shards know them."""

from __future__ import annotations

from typing import Any, NamedTuple

from acquisition.errors import ShardpulseError
from acquisition.link.resp import ReplyError, error_for
from acquisition.wire.position import Position

#: Key of a resource set: (host id, resource set id).
Owner = tuple[int, int]
#: Record, absence, or the reason neither is known.
Value = bytes | None | ShardpulseError


class Member(NamedTuple):
    """One (host, resource set) in the shards; ``prefix`` is its smoothed key without the slot."""

    tag: str
    host: int
    resource_set: int
    prefix: str


class Place(NamedTuple):
    """Known place of a member: its newest position, and the error if that is not of this reading."""

    position: Position | None
    error: ShardpulseError | None


def value_of(reply: Any) -> Any:
    """A reply, or the error it stands for."""
    return error_for(reply) if isinstance(reply, ReplyError) else reply
