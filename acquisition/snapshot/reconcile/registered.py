"""Registered readers of the raw streams beside the filter, and their progress.

They include the archivers of each partition and the archive's progress for each host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from acquisition.errors import FrameError, ShardpulseError
from acquisition.link.cluster import Cluster, Command
from acquisition.link.resp import ReplyError, error_for
from acquisition.wire import archived, keys, lease, readers
from acquisition.wire.archived import Archived
from acquisition.wire.layout import Layout
from acquisition.wire.readers import Reader

ARCHIVE = "archive"  #: name of the archivers' claims


class Registered(NamedTuple):
    """A reader of all its partitions together. ``behind_seconds`` is of the partition in which it is furthest behind;
    ``expired`` partitions are those in which nothing waits for it any more. Then come samples, ``processes``: number
    of partitions followed by each of its processes, by name, and ``trouble``: what blocks some of them."""

    name: str
    partitions: int
    behind_seconds: float
    expired: int
    archived: int
    gap: int
    open: int
    processes: Mapping[str, int] = {}
    trouble: str = ""

    @property
    def made(self) -> int:
        """Samples known to it since it began. The books of the pipeline begin with each host's numbering, so
        after a reboot more is archived than they report as made."""
        return self.archived + self.gap + self.open

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "made": self.made}


def read(cluster: Cluster, layout: Layout, errors: list[ShardpulseError] | None = None) -> list[Registered]:
    """All readers by name, in one pipeline per shard; partitions whose shard does not answer are left out, and its
    error is added to ``errors``."""
    commands: list[Command] = []
    for tag in layout.tags:
        name = keys.readers(tag)
        commands += [(name, ("HGETALL", name)), (name, ("TIME",)), (name, ("GET", keys.archiver(tag)))]
    replies = noted(cluster.gather(commands), errors)
    found: dict[str, list[tuple[Reader, int]]] = {}
    for fields, clock in zip(replies[::3], replies[1::3], strict=True):
        if isinstance(fields, list) and isinstance(clock, list):
            _gather(fields, readers.milliseconds(clock), found)
    archivers = _names(replies[2::3])
    return [_registered(name, found[name], archivers if name == ARCHIVE else {}) for name in sorted(found)]


def read_archived(
    cluster: Cluster, layout: Layout, errors: list[ShardpulseError] | None = None
) -> dict[tuple[int, int], Archived]:
    """The archive's books by (host, resource set); partitions are left out if their shard does not answer, with
    its error in ``errors``, or if their value is invalid."""
    names = [keys.archived(tag) for tag in layout.tags]
    found: dict[tuple[int, int], Archived] = {}
    replies = noted(cluster.gather([(name, ("GET", name)) for name in names]), errors)
    for tag, reply in zip(layout.tags, replies, strict=True):
        if isinstance(reply, bytes):
            with suppress(FrameError):
                found |= {row[:2]: row for row in archived.decode(reply) if layout.tag_of(row.host) == tag}
    return found


def noted(replies: list[Any], errors: list[ShardpulseError] | None) -> list[Any]:
    """The replies; errors among them are also added to ``errors``."""
    if errors is not None:
        errors += [error_for(each) if isinstance(each, ReplyError) else each
                   for each in replies if isinstance(each, ReplyError | ShardpulseError)]  # fmt: skip
    return replies


def _names(holders: list[Any]) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for holder in holders:
        if isinstance(holder, bytes):
            with suppress(FrameError):
                found[lease.decode(holder).name] += 1
    return dict(sorted(found.items()))


def _gather(fields: list[Any], now: int, found: dict[str, list[tuple[Reader, int]]]) -> None:
    for name, value in zip(fields[::2], fields[1::2], strict=True):
        try:
            claim = readers.decode(value)
        except FrameError:
            continue
        found.setdefault(name.decode(errors="replace"), []).append((claim, now))


def _registered(name: str, claims: list[tuple[Reader, int]], processes: Mapping[str, int]) -> Registered:
    return Registered(
        name,
        len(claims),
        max(0.0, *((now - claim.until) / 1000.0 for claim, now in claims)),
        sum(claim.expires <= now for claim, now in claims),
        sum(claim.archived for claim, _ in claims),
        sum(claim.gap for claim, _ in claims),
        sum(claim.open for claim, _ in claims),
        processes,
        max((claim.trouble for claim, now in claims if claim.expires > now), default=""),
    )
