"""The registered readers of the raw streams beside the filter, as the shards know them: how far each has come."""

from __future__ import annotations

from typing import Any, NamedTuple

from acquisition.errors import FrameError
from acquisition.link.cluster import Cluster, Command
from acquisition.wire import keys, readers
from acquisition.wire.layout import Layout
from acquisition.wire.readers import Reader


class Registered(NamedTuple):
    """A reader of all its partitions together. ``behind_seconds`` is of the partition that it has read least of;
    ``expired`` partitions are those in which nothing waits for it any more. The last three are samples."""

    name: str
    partitions: int
    behind_seconds: float
    expired: int
    archived: int
    gap: int
    open: int


def read(cluster: Cluster, layout: Layout) -> list[Registered]:
    """All readers by name, in one pipeline per shard; partitions whose shard does not answer are left out."""
    commands: list[Command] = []
    for tag in layout.tags:
        commands += [(keys.readers(tag), ("HGETALL", keys.readers(tag))), (keys.readers(tag), ("TIME",))]
    replies = cluster.gather(commands)
    found: dict[str, list[tuple[Reader, int]]] = {}
    for fields, clock in zip(replies[::2], replies[1::2], strict=True):
        if isinstance(fields, list) and isinstance(clock, list):
            _gather(fields, readers.milliseconds(clock), found)
    return [_registered(name, claims) for name, claims in sorted(found.items())]


def _gather(fields: list[Any], now: int, found: dict[str, list[tuple[Reader, int]]]) -> None:
    for name, value in zip(fields[::2], fields[1::2], strict=True):
        try:
            claim = readers.decode(value)
        except FrameError:
            continue
        found.setdefault(name.decode(errors="replace"), []).append((claim, now))


def _registered(name: str, claims: list[tuple[Reader, int]]) -> Registered:
    return Registered(
        name,
        len(claims),
        max(0.0, *((now - claim.until) / 1000.0 for claim, now in claims)),
        sum(claim.expires <= now for claim, now in claims),
        sum(claim.archived for claim, _ in claims),
        sum(claim.gap for claim, _ in claims),
        sum(claim.open for claim, _ in claims),
    )
