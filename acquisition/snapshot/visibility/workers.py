"""The filter workers as the shards know them: who is alive, who smooths which partition."""

from __future__ import annotations

from typing import Any, NamedTuple

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import ReplyError, error_for
from acquisition.wire import keys, lease
from acquisition.wire.layout import Layout
from acquisition.wire.lease import Holder

_GONE = -2  #: what PTTL says of a key that ran out since GET


class Worker(NamedTuple):
    """``renewed`` is how many seconds ago it last renewed anything, by the shards' own clocks."""

    id: str
    name: str
    lease_seconds: float
    renewed: float
    partitions: tuple[int, ...]
    step: str = ""  #: how it computes, ``native`` or ``numpy``; "" when it does not say
    figures: str = ""  #: a checksum of what it is to compute, the same for the same configuration; "" as above


class Workers(NamedTuple):
    """``unowned`` partitions are smoothed by nobody at this moment, ``errors`` is what could not be read."""

    workers: tuple[Worker, ...]
    unowned: tuple[int, ...]
    errors: tuple[ShardpulseError, ...]


def read_workers(cluster: Cluster, layout: Layout) -> Workers:
    """All live workers, ordered by name and id, in one pipeline per shard.

    A partition whose shard cannot be read is neither owned nor unowned: its error says so.
    """
    replies = cluster.gather([(key, command) for tag in layout.tags for key, command in _commands(tag)])
    owned: dict[Holder, list[int]] = {}
    renewed: dict[Holder, float] = {}
    unowned: list[int] = []
    errors: dict[str, ShardpulseError] = {}
    for number in range(layout.partitions):
        answers = [_value(reply) for reply in replies[4 * number : 4 * number + 4]]
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
    """The holder of a partition, and seconds since each worker renewed there. Raises what went wrong."""
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


def _value(reply: Any) -> Any:
    return error_for(reply) if isinstance(reply, ReplyError) else reply
