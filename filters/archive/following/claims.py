"""Claims of the archive in the shards: entries still needed, and its books.

The needed entries follow from the durable ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from acquisition.errors import FrameError
from acquisition.link.cluster import Cluster, Command
from acquisition.snapshot.reconcile.registered import ARCHIVE
from acquisition.wire import archived, keys, readers
from acquisition.wire.layout import Layout
from acquisition.wire.readers import Reader
from filters.archive.following.entry_ids import after, before
from filters.archive.following.partition import Partition

EVERY = 5.0
_DAY_MS = 86_400_000


class Clock(NamedTuple):
    """Shard clock in milliseconds: ``until`` when a partition was read, and ``now`` at ``asked``, CLOCK_MONOTONIC."""

    until: int
    now: int
    asked: float


def published(cluster: Cluster, layout: Layout, numbers: Iterable[int]) -> dict[int, bytes]:
    """The oldest entry still needed of these partitions as last claimed, by number, without partitions that no one has
    claimed or with a shard that does not answer. Read it before the cursors of the database, which are as far or
    farther, unless the database has gone back. Raises ShardError."""
    wanted = sorted(numbers)
    names = [keys.readers(layout.tags[number]) for number in wanted]
    found = {}
    for number, reply in zip(wanted, cluster.gather([(key, ("HGET", key, ARCHIVE)) for key in names]), strict=True):
        if isinstance(reply, bytes):
            with suppress(FrameError):
                found[number] = after(readers.decode(reply).cursor)
    return found


def commands(
    partitions: Iterable[Partition],
    clocks: Mapping[int, Clock],
    durable: Mapping[int, bytes],
    seconds: float,
    trouble: str = "",
) -> list[Command]:
    """Claims and books of partitions that were read; claims last for ``seconds`` from the next one on; ``durable``:
    oldest needed entry, by number; ``trouble``: reason for waiting for the database."""
    found: list[Command] = []
    due = time.monotonic() + EVERY
    for one in partitions:
        clock = clocks.get(one.number)
        if clock is not None:
            expires = clock.now + round(1000 * (due - clock.asked + seconds))
            claim = Reader(before(durable[one.number]), expires, clock.until, *one.counts, trouble)
            name = keys.readers(one.tag)
            found += [(name, ("HSET", name, ARCHIVE, readers.encode(claim))), (name, ("PEXPIRE", name, _DAY_MS))]
            name = keys.archived(one.tag)
            found.append((name, ("SET", name, archived.encode(one.books), "PX", _DAY_MS)))
    return found
