"""What the archive says in the shards of itself: which entries it still needs, by what is durable, and its books."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from acquisition.link.cluster import Command
from acquisition.snapshot.registered import ARCHIVE
from acquisition.wire import keys, readers
from acquisition.wire.readers import Reader
from filters.archive.entry_ids import before
from filters.archive.partition import Partition

EVERY = 5.0
_DAY_MS = 86_400_000


class Clock(NamedTuple):
    """The shard's clock in milliseconds: up to when a partition was read, and ``now`` at ``asked``, CLOCK_MONOTONIC."""

    until: int
    now: int
    asked: float


def commands(
    partitions: Iterable[Partition], clocks: Mapping[int, Clock], durable: Mapping[int, bytes], seconds: float
) -> list[Command]:
    """The claims of partitions that were read, which last for ``seconds`` from the next one on; ``durable`` is the
    oldest entry that is needed, by number."""
    found: list[Command] = []
    due = time.monotonic() + EVERY
    for one in partitions:
        clock = clocks.get(one.number)
        if clock is not None:
            expires = clock.now + round(1000 * (due - clock.asked + seconds))
            claim = Reader(before(durable[one.number]), expires, clock.until, *one.counts)
            name = keys.readers(one.tag)
            found += [(name, ("HSET", name, ARCHIVE, readers.encode(claim))), (name, ("PEXPIRE", name, _DAY_MS))]
    return found
