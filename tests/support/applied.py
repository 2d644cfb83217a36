"""Applied state in the shards, of one set of one host and its partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from acquisition.link import happenings
from acquisition.link.cluster import Cluster
from acquisition.wire import keys, position, rejected
from acquisition.wire.position import Position
from acquisition.wire.rejected import Rejected
from filters.worker.loop.worker import Worker
from tests.support.waiting import PATIENCE, eventually

TAGS = keys.tags(keys.DEFAULT_PARTITIONS)


def position_of(cluster: Cluster, host: int, resource_set: int) -> Position | None:
    """The newest applied frame, or None."""
    key = keys.applied(TAGS[keys.partition_of(host, len(TAGS))])
    data = cluster.call(key, "HGET", key, keys.member(host, resource_set))
    return None if data is None else position.decode(data)


def sequence_of(cluster: Cluster, host: int, resource_set: int) -> int:
    """The number of the newest applied frame, 0 if absent."""
    found = position_of(cluster, host, resource_set)
    return 0 if found is None else found.sequence


def rejected_of(cluster: Cluster, tag: str) -> list[Rejected]:
    """The rejected entries of a partition, oldest first."""
    key = keys.rejected(tag)
    return [rejected.decode(fields) for _, fields in cluster.call(key, "XRANGE", key, "-", "+")]


def events_of(cluster: Cluster, tags: Iterable[str], kind: str) -> list[happenings.Entry]:
    """The events of one kind in these partitions."""
    entries = [entry for tag in tags for entry in cluster.call(keys.events(tag), "XRANGE", keys.events(tag), "-", "+")]
    return [one for one in (happenings.decode(*entry) for entry in entries) if one is not None and one.kind == kind]


def turn_until(
    worker: Worker,
    done: Callable[[], object],
    seconds: float = PATIENCE,
    between: Callable[[], float] = lambda: 0.05,
) -> None:
    """Turn a worker until something holds; ``between`` returns how long a turn may take at most."""
    eventually(done, seconds, meanwhile=lambda: worker.turn(min(0.05, between())))
