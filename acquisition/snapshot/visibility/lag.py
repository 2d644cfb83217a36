"""How far the filter is behind: for each partition, how long its oldest unread entry has waited."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import ReplyError, error_for
from acquisition.snapshot.visibility.workers import Worker
from acquisition.wire import keys
from acquisition.wire.layout import Layout


class Lag(NamedTuple):
    """One partition. ``seconds`` is 0 when nothing waits, None when that is unknown (``problem`` says why); ``error``
    is what its shard answered instead."""

    number: int
    seconds: float | None
    problem: str = ""
    error: ShardpulseError | None = None


def read(
    cluster: Cluster, layout: Layout, cursors: Mapping[str, bytes], only: Collection[str] | None = None
) -> list[Lag]:
    """All partitions, or ``only`` those with these tags, in order; ``cursors`` are how far the commits have come, by
    tag."""
    wanted = [(number, tag) for number, tag in enumerate(layout.tags) if only is None or tag in only]
    commands: list[tuple[str, tuple[Any, ...]]] = []
    for _, tag in wanted:
        stream = keys.raw(tag)
        after = b"(" + (cursors.get(tag) or b"0-0")
        commands += [(stream, ("XRANGE", stream, after, "+", "COUNT", 1)), (stream, ("TIME",))]
    replies = cluster.gather(commands)
    return [
        _lag(number, tag, replies[2 * at], replies[2 * at + 1], tag in cursors)
        for at, (number, tag) in enumerate(wanted)
    ]


def worst_of(worker: Worker, lags: Iterable[Lag]) -> float | None:
    """The longest wait in the partitions of a worker, seconds; None while that of one of them is unknown."""
    return worst(lag for lag in lags if lag.number in worker.partitions)


def worst(lags: Iterable[Lag]) -> float | None:
    """The longest wait, seconds; None while one is unknown."""
    waits = [lag.seconds for lag in lags]
    known = [seconds for seconds in waits if seconds is not None]
    return max(known, default=0.0) if len(known) == len(waits) else None


def _lag(number: int, tag: str, entries: Any, clock: Any, known: bool) -> Lag:
    """Both times are the shard's: the id of an entry is when it came."""
    for reply in (entries, clock):
        error = error_for(reply) if isinstance(reply, ReplyError) else reply
        if isinstance(error, ShardpulseError):
            return Lag(number, None, f"{keys.raw(tag)}: {error}", error)
    if not known:
        return Lag(number, None, "its cursor is not known")
    if not entries:
        return Lag(number, 0.0)
    came = int(entries[0][0].partition(b"-")[0]) / 1000.0
    return Lag(number, max(0.0, int(clock[0]) + int(clock[1]) / 1e6 - came))
