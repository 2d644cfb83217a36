"""Clock comparison of this reader with the shards and the newest samples.

Ages and ticks are counted by the reader's clock. It is compared with TIME of every shard, every ten seconds and if
all hosts are late; the newest samples are a third source.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping

from acquisition.link.cluster import Cluster
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.states import CURRENT
from acquisition.wire import keys
from acquisition.wire.layout import Layout

_EVERY = 10.0  #: seconds between two comparisons
_INTERVAL = 1.0  #: seconds, as a default
#: Greatest age, in intervals, of the newest sample of all hosts while samples flow.
_FRESH = 3.0
READER, SHARD = "reader", "shard"
#: Description of differing clocks, by the one that is wrong.
WHY = {
    READER: "this reader's clock is wrong, and so are ages",
    SHARD: "that shard's clock is wrong, as samples or other shards show",
    "": "one of them is wrong, and ages may be",
}


class ClockReader:
    """Compares the clock of one reader with those of the shards. A clock passed to it, other than the system's, belongs
    to a replay or a test: it is compared only if all hosts are late."""

    def __init__(self, cluster: Cluster, layout: Layout, clock: Callable[[], float]) -> None:
        self._cluster, self._layout, self._clock = cluster, layout, clock
        self._ahead: Mapping[str, float] = {}
        self._due = -math.inf if clock is time.time else math.inf
        self._limit = limit_of(())

    def differ(self) -> bool:
        """Whether some differ by more than half an interval. Raises ShardError if no shard answers."""
        if time.monotonic() >= self._due:
            self._compare()
        return any(abs(by) > self._limit for by in self._ahead.values())

    def remarks(self, blocks: Iterable[Block], now: float) -> list[str]:
        """Remarks on clocks in a reading at ``now``, by the reader's clock."""
        known = [block for block in blocks if block.wall]
        self._limit = limit_of(block.interval for block in known)
        if known and all(block.state != CURRENT for block in known):
            self._compare()
        elif self._due == math.inf:
            self._ahead = {}
        newest = max((min(block.wall, block.filtered) for block in known), default=-math.inf)
        return remarks(self._ahead, now - newest, self._limit) if self.differ() else []

    def _compare(self) -> None:
        if self._due < math.inf:
            self._due = time.monotonic() + _EVERY
        owners = {str(self._cluster.known_owner(keys.commit(tag)) or ""): keys.commit(tag) for tag in self._layout.tags}
        before = self._clock()
        replies = self._cluster.gather([(key, ("TIME",)) for key in owners.values()])
        after = self._clock()
        self._ahead = {
            shard: ahead_of(int(reply[0]) + int(reply[1]) / 1e6, before, after)
            for shard, reply in zip(owners, replies, strict=True)
            if isinstance(reply, list)
        }


def limit_of(intervals: Iterable[float]) -> float:
    """Permitted difference of clocks in seconds: half the shortest of these intervals."""
    return min((one for one in intervals if 0.0 < one < math.inf), default=_INTERVAL) / 2.0


def ahead_of(clock: float, before: float, after: float) -> float:
    """Seconds by which a reader whose clock showed ``before`` and ``after`` is, at least, ahead of another ``clock``
    read in between, or behind it (< 0); 0.0: they may agree."""
    return max(before - clock, 0.0) or min(after - clock, 0.0)


def remarks(ahead: Mapping[str, float], age: float, limit: float) -> list[str]:
    """Remarks on clocks that differ by more than ``limit`` seconds. ``ahead`` is the lead of the reader's clock, by
    address of the shard, ``age`` that of the newest sample by the reader's clock."""
    off = {shard: by for shard, by in ahead.items() if abs(by) > limit}
    if not off:
        return []
    which = suspect(ahead, age, limit)
    if which == SHARD:
        return [
            f"the clock of shard {shard} is {by_how_much(-by)} this reader's: {WHY[SHARD]}" for shard, by in off.items()
        ]
    worst = max(off.values(), key=abs)
    return [f"the clock of this reader is {by_how_much(worst)} those of the shards: {WHY[which]}"]


def suspect(ahead: Mapping[str, float], age: float, limit: float) -> str:
    """The wrong clock if some differ (as for ``remarks``): READER, SHARD, or "" if that cannot be known.

    Most shards are right, and samples neither from the future nor old show which of two clocks is.
    """
    off = [by for by in ahead.values() if abs(by) > limit]
    worst = max(off, key=abs)
    here, there = _is_fresh(age, limit), _is_fresh(age - worst, limit)
    if len(off) < len(ahead) or (here and not there):
        return SHARD
    alike = len(off) > 1 and max(off) - min(off) <= limit
    return READER if alike or (there and not here) else ""


def _is_fresh(age: float, limit: float) -> bool:
    return -limit <= age <= 2.0 * limit * _FRESH


def by_how_much(seconds: float) -> str:
    """As ``3.0 s ahead of``."""
    size = f"{abs(seconds):.1f}" if abs(seconds) < 10.0 else f"{abs(seconds):.0f}"
    return f"{size} s {'ahead of' if seconds > 0 else 'behind'}"
