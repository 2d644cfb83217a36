"""Filter workers: which are alive, their partitions, and how far they are behind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.snapshot.values.members import value_of
from acquisition.wire import keys, lease
from acquisition.wire.layout import Layout
from acquisition.wire.lease import Holder

_GONE = -2  #: PTTL of a key that has expired since GET


class Worker(NamedTuple):
    """``renewed`` is the time in seconds since it last renewed anything, by the shards' own clocks."""

    id: str
    name: str
    lease_seconds: float
    renewed: float
    partitions: tuple[int, ...]
    step: str = ""  #: its kind of step, ``native`` or ``numpy``; "" if not reported
    figures: str = ""  #: checksum of the figures to compute, equal for equal configurations; "" as above


class Workers(NamedTuple):
    """``unowned`` partitions are not smoothed by any worker now, ``errors`` is what could not be read."""

    workers: tuple[Worker, ...]
    unowned: tuple[int, ...]
    errors: tuple[ShardpulseError, ...]


class Lag(NamedTuple):
    """Waiting time of the oldest unread entry of a partition.

    ``seconds`` is 0 if nothing waits, None if unknown (``problem`` is the reason); ``error`` is what its shard
    returned instead.
    """

    number: int
    seconds: float | None
    problem: str = ""
    error: ShardpulseError | None = None


def read_workers(cluster: Cluster, layout: Layout) -> Workers:
    """All live workers, ordered by name and id, in one pipeline per shard.

    A partition with an unreadable shard is neither owned nor unowned: it has an error instead.
    """
    replies = cluster.gather([(key, command) for tag in layout.tags for key, command in _commands(tag)])
    owned: dict[Holder, list[int]] = {}
    renewed: dict[Holder, float] = {}
    unowned: list[int] = []
    errors: dict[str, ShardpulseError] = {}
    for number in range(layout.partitions):
        answers = [value_of(reply) for reply in replies[4 * number : 4 * number + 4]]
        try:
            holder, members = _decode(*answers)
        except ShardpulseError as error:
            errors[str(error)] = error
            continue
        for member, ago in members.items():
            renewed[member] = min(ago, renewed.get(member, ago))
        if holder is None:
            unowned.append(number)
        else:
            owned.setdefault(holder, []).append(number)
    found = [_worker(holder, owned.get(holder, []), ago) for holder, ago in renewed.items()]
    return Workers(
        tuple(sorted(found, key=lambda worker: (worker.name, worker.id))), tuple(unowned), (*errors.values(),)
    )


def _commands(tag: str) -> list[tuple[str, tuple[Any, ...]]]:
    holder, members = keys.lease(tag), keys.workers(tag)
    return [
        (holder, ("GET", holder)),
        (holder, ("PTTL", holder)),
        (members, ("ZRANGE", members, 0, -1, "WITHSCORES")),
        (members, ("TIME",)),
    ]


def _decode(value: Any, left: Any, members: Any, clock: Any) -> tuple[Holder | None, dict[Holder, float]]:
    """Holder of a partition, and seconds since each worker renewed there. Raises any error found."""
    for answer in (value, left, members, clock):
        if isinstance(answer, ShardpulseError):
            raise answer
    now = int(clock[0]) * 1000 + int(clock[1]) // 1000
    found: dict[Holder, float] = {}
    for member, score in zip(members[::2], members[1::2], strict=True):
        worker = lease.decode(member)
        if now < float(score) <= now + worker.milliseconds:
            found[worker] = (now + worker.milliseconds - float(score)) / 1000.0
    if value is None or left == _GONE:
        return None, found
    holder = lease.decode(value)
    found[holder] = max(0.0, (holder.milliseconds - left) / 1000.0)
    return holder, found


def _worker(holder: Holder, partitions: list[int], renewed: float) -> Worker:
    return Worker(holder.id, holder.name, holder.milliseconds / 1000.0, renewed, tuple(partitions), *holder[3:])


def read_lags(
    cluster: Cluster, layout: Layout, cursors: Mapping[str, bytes], only: Collection[str] | None = None
) -> list[Lag]:
    """All partitions, or ``only`` those with these tags, in order; ``cursors`` is the progress of commits, by
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


def lag_of(worker: Worker, lags: Iterable[Lag]) -> float | None:
    """Longest wait in the partitions of a worker, seconds; None while one of them is unknown."""
    return worst_lag(lag for lag in lags if lag.number in worker.partitions)


def worst_lag(lags: Iterable[Lag]) -> float | None:
    """Longest wait, seconds; None while one is unknown."""
    waits = [lag.seconds for lag in lags]
    known = [seconds for seconds in waits if seconds is not None]
    return max(known, default=0.0) if len(known) == len(waits) else None


def _lag(number: int, tag: str, entries: Any, clock: Any, known: bool) -> Lag:
    """Both times are the shard's: the id of an entry is its arrival time."""
    for error in map(value_of, (entries, clock)):
        if isinstance(error, ShardpulseError):
            return Lag(number, None, f"{keys.raw(tag)}: {error}", error)
    if not known:
        return Lag(number, None, "unknown cursor")
    if not entries:
        return Lag(number, 0.0)
    came = int(entries[0][0].partition(b"-")[0]) / 1000.0
    return Lag(number, max(0.0, int(clock[0]) + int(clock[1]) / 1e6 - came))
