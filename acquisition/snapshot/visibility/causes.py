"""Visibility of each host: down, or hidden by a fault elsewhere (pure).

Silence has many causes. For a host without its tick these are checked in order: does its shard answer; does a
filter worker hold its partition; has the shard free memory; has the worker committed what is there; did its probe
announce its stop, or that it is refused; and do most of its neighbours report while it does not? Only then, after
``down_after``, it is *down*. Before that it is *late*; in all other cases it is *unknown*, with the cause and
since when. A dead probe and a dead host look the same.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from acquisition.snapshot.values import states
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.states import CURRENT, DOWN, LATE, UNKNOWN
from acquisition.wire.keys import partition_of
from acquisition.wire.position import ENDED

_INFINITY = float("inf")
#: Of its patience: a neighbour that reported this recently has not fallen silent together with the host.
RECENT = 0.75
#: Fraction of its neighbours that report if a host is silent alone.
MOST_HEARD = 2 / 3
#: Neighbours are the hosts of the same shard, as links break shard by shard; or those of all shards, if there are no
#: more than these.
_FEWEST = 3


class PartitionVisibility(NamedTuple):
    """A partition with a late host: whether a filter worker holds it, and for how many seconds the oldest
    entry of its raw stream has waited for one; ``committed`` is when the newest committed entry arrived, 0.0: never;
    ``full``: its shard uses all of its permitted memory."""

    held: bool
    waiting: float
    committed: float
    full: bool = False


class Visibility(NamedTuple):
    """Knowledge of a reader beside the blocks. ``partitions`` by number, of those that were read; None: it could not
    be read. ``shards`` are the owners of all partitions, "" if absent. ``excused`` is until when a host could
    not be seen: patience with it starts again then. ``trusted`` are the shards with probes known to have
    reported a while ago as well; None: the reader has been running for that long. ``advanced`` are hosts that
    reported after the blocks had been read, ``refused`` those whose probes report that the filter refuses their frames.
    ``unread`` are silent hosts about which a shard did not answer, ``unanswered`` describes the unanswered
    questions. ``asked`` is when the silent hosts to ask about were chosen: one that has been silent long enough
    only since then is not covered."""

    partitions: Mapping[int, PartitionVisibility | None]
    shards: Sequence[str]
    excused: Mapping[int, float] = {}
    trusted: frozenset[str] | None = None
    grace: float = 0.0
    advanced: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    unread: frozenset[int] = frozenset()
    unanswered: Sequence[str] = ()
    asked: float = _INFINITY


class _Host:
    """Blocks of a host; ``seen`` is when the newest arrived, 0.0: none ever did."""

    __slots__ = ("blocks", "partition", "seen", "shortest")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.blocks: list[Block] = []
        self.seen = 0.0
        self.shortest = _INFINITY  #: shortest interval of its resource sets

    def add(self, block: Block) -> None:
        self.blocks.append(block)
        if block.wall:
            self.seen = max(self.seen, block.filtered)
            self.shortest = min(self.shortest, block.interval)

    @property
    def said_goodbye(self) -> bool:
        positions = [block.position for block in self.blocks if block.wall]
        return all(position is not None and position.flags & ENDED for position in positions)


def look(blocks: Sequence[Block], visibility: Visibility, now: float, down_after: float) -> None:
    """Set the age of every block at ``now``, and for late ones the state with its cause.

    ``unheard`` are sets without data for ``down_after`` seconds (or two intervals, if that is longer), also
    if their host is up: its probe no longer samples them.
    """
    late = False
    for block in blocks:
        if block.wall:  # else nothing has ever been sampled, or nothing is known
            block.age_seconds = max(0.0, now - (block.wall if block.wall < block.filtered else block.filtered))
        late = late or block.state == LATE
    if not late:
        return
    hosts: dict[int, _Host] = {}
    for block in blocks:
        found = hosts.get(block.host_id)
        if found is None:
            found = hosts[block.host_id] = _Host(partition_of(block.host_id, len(visibility.shards)))
        found.add(block)
    neighbours = _Neighbours(hosts.values(), visibility)
    for number, host in hosts.items():
        if any(block.state == LATE for block in host.blocks):
            _judge(number, host, visibility, neighbours, min(now, visibility.asked), down_after)


def blindness(blocks: Iterable[Block], clocks: Sequence[str] = ()) -> str:
    """Reason that no host is visible, with the text about ``clocks``; "" if a host is visible, or none exists."""
    hosts: dict[int, str] = {}
    since = 0.0
    for block in blocks:
        if block.state == CURRENT:
            return ""
        hosts[block.host_id] = block.cause or hosts.get(block.host_id, "")
        since = max(since, block.since or (block.filtered if block.wall else 0.0))
    if not hosts:
        return ""
    counts = Counter(hosts.values())
    when = f" since {clock(since)}" if since else ""
    parts = [f"{count} of {len(hosts)}: {states.CAUSES.get(cause, 'late')}" for cause, count in sorted(counts.items())]
    return f"no host is visible{when}; {'; '.join([*parts, *clocks])}"


def errors(blocks: Iterable[Block]) -> list[str]:
    """A sentence for each cause that hides hosts in the pipeline; shards that do not answer have
    errors of their own."""
    hidden: dict[str, dict[int, float]] = {}
    for block in blocks:
        if block.cause in states.BLIND and block.cause != states.SHARD:
            hidden.setdefault(block.cause, {})[block.host_id] = block.since
    return [
        f"{len(hosts)} host{'s' * (len(hosts) != 1)} not visible since {clock(min(hosts.values()))}: "
        f"{states.CAUSES[cause]}"
        for cause, hosts in hidden.items()
    ]


def clock(seconds: float) -> str:
    """A time of day, UTC."""
    return time.strftime("%H:%M:%SZ", time.gmtime(seconds)) if 0.0 < seconds < 1e11 else "an unknown time"


def holds_until(blocks: Iterable[Block], down_after: float) -> float:
    """Time until which these states hold if nothing else is read: then patience with a late host ends."""
    late = (block for block in blocks if block.state == LATE and block.wall)
    return min((block.filtered + max(down_after, 2 * block.interval) for block in late), default=_INFINITY)


def _judge(
    number: int, host: _Host, visibility: Visibility, neighbours: _Neighbours, now: float, down_after: float
) -> None:
    cause, since = _of_pipeline(host, visibility)
    patience = max(down_after, 2 * host.shortest)
    if not cause and host.seen and number not in visibility.advanced:
        if host.said_goodbye:
            cause = states.GOODBYE
        elif number in visibility.refused:
            cause = states.REFUSED
        elif number in visibility.unread:
            cause = states.SHARD
        elif now - host.seen > patience and not neighbours.are_heard(host, now, patience):
            cause = states.SILENCE
        elif now - max(host.seen, visibility.excused.get(number, 0.0)) > patience:
            cause = states.SILENT
    for block in host.blocks:
        if block.state != LATE:
            continue
        long = now - block.filtered > max(down_after, 2 * block.interval)
        block.unheard = bool(block.wall) and long and cause not in states.HIDING
        if cause:
            block.cause, block.since = cause, since or host.seen
            block.state = DOWN if cause == states.SILENT else UNKNOWN


def _of_pipeline(host: _Host, visibility: Visibility) -> tuple[str, float]:
    """Cause that hides a host in the pipeline, and since when; "" if the pipeline would show it."""
    if any(block.unreachable for block in host.blocks):
        return states.SHARD, host.seen
    if host.partition not in visibility.partitions:
        return "", 0.0
    partition = visibility.partitions[host.partition]
    if partition is None:
        return states.SHARD, host.seen
    if not partition.held:
        return states.UNHELD, partition.committed
    if partition.full:
        return states.FULL, partition.committed
    if partition.waiting > visibility.grace + (host.shortest if host.shortest < _INFINITY else 0.0):
        return states.UNCOMMITTED, partition.committed
    return "", 0.0


class _Neighbours:
    """Times of the last reports of the hosts of each shard."""

    def __init__(self, hosts: Iterable[_Host], visibility: Visibility) -> None:
        self._visibility = visibility
        self._seen: dict[str, list[float]] = {}
        for host in hosts:
            if host.seen:
                self._seen.setdefault(visibility.shards[host.partition], []).append(host.seen)
        for seen in self._seen.values():
            seen.sort()
        self._all = sorted(seen for each in self._seen.values() for seen in each)

    def are_heard(self, host: _Host, now: float, patience: float) -> bool:
        """Whether most hosts that reported when this host fell silent, or later, report now."""
        shard = self._visibility.shards[host.partition]
        seen = self._seen[shard]
        own = _counted(seen, host, now, patience)
        if own.others and len(seen) > _FEWEST:
            return own.are_most and self._is_trusted({shard})
        every = _counted(self._all, host, now, patience)
        heard = {each for each, seen in self._seen.items() if seen[-1] >= now - RECENT * patience}
        return (own.are_most or not own.others) and every.are_most and self._is_trusted(heard)

    def _is_trusted(self, shards: Set[str]) -> bool:
        """Whether probes in all of these shards are known to have reported a while ago as well."""
        return self._visibility.trusted is None or shards <= self._visibility.trusted


class _Counted(NamedTuple):
    """Number of ``others`` that reported when a host fell silent, or later, and of those ``heard`` now."""

    others: int
    heard: int

    @property
    def are_most(self) -> bool:
        return self.others > 0 and self.heard >= MOST_HEARD * self.others


def _counted(seen: Sequence[float], host: _Host, now: float, patience: float) -> _Counted:
    others = len(seen) - bisect_left(seen, host.seen - patience) - 1
    return _Counted(others, len(seen) - bisect_left(seen, now - RECENT * patience))
