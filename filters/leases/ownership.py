"""Ownership of partitions: leases to take and to give up (pure).

Workers decide without a coordinator.

Every worker sees the same leases and decides for itself. A fair distribution is one in which the counts of any two
workers differ by at most one. Partitions stay where they are unless their worker has too many and another
one that can reach them has too few, so a worker that joins or leaves causes only the necessary moves.
If two workers take the same partition, its lease decides. Each worker prefers partitions
in an order of its own (rendezvous hashing: Thaler and Ravishankar, "Using Name-Based Mappings to
Increase Hit Rates", 1998), so that they rarely try to take the same one.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple


class Ownership(NamedTuple):
    """A partition as last reported by its shard: the holder of the lease, b"" if there is none, and the live
    workers that reach the shard, including the holder."""

    holder: bytes
    workers: frozenset[bytes]


class Changes(NamedTuple):
    """Partitions to ``take`` and to ``give`` up, by number; ``wanting``: this worker has fewer than its
    share, whether or not ``take`` is counted."""

    take: list[int]
    give: list[int]
    wanting: bool


def plan(
    me: bytes, partitions: int, known: Mapping[int, Ownership], held: Collection[int], waiting: Collection[int]
) -> Changes:
    """Changes that worker ``me`` makes now.

    ``known``: those of the ``partitions`` with a shard that answers. ``held``: partitions with
    state in this worker's memory (it may have been late to renew them). ``waiting``: partitions that have been
    free for so long that it takes them whatever its share: a worker that lacks partitions cannot
    reach these.
    """
    workers = {me}.union(*(one.workers for one in known.values()))
    counts = Counter(dict.fromkeys(workers, 0))
    counts.update(one.holder for one in known.values() if one.holder in workers)
    shares = _shares(counts, partitions)
    missing = shares[me] - counts[me]
    free = sorted((n for n, one in known.items() if not one.holder), key=lambda n: (n not in held, rank(me, n)))
    take = [n for i, n in enumerate(free) if i < missing or n in waiting]
    poor = {worker for worker in workers if counts[worker] < shares[worker]} if missing < 0 else set()
    mine = sorted((n for n, one in known.items() if one.holder == me), key=lambda n: rank(me, n), reverse=True)
    give = [n for n in mine if not poor.isdisjoint(known[n].workers)][: max(0, -missing)]
    return Changes(take, give, missing > 0)


def rank(worker: bytes, number: int) -> int:
    """Place of a partition in a worker's order of preference; smaller is preferred."""
    return zlib.crc32(b"%s %d" % (worker, number))


def _shares(counts: Mapping[bytes, int], partitions: int) -> dict[bytes, int]:
    """Number of partitions for each worker; the current largest holders get the remainder."""
    share, odd = divmod(partitions, len(counts))
    order = sorted(counts, key=lambda worker: (-counts[worker], worker))
    return {worker: share + (place < odd) for place, worker in enumerate(order)}
