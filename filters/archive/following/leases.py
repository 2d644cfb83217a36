"""Partition leases among archivers, which only avoid duplicate work.

Two archivers that follow one partition write nothing twice (``Store.commit`` is guarded) but do the work twice.
The archivers share the partitions by the same rule as filter workers (docs/decisions/0013), with their own keys
and in the loop of the follower.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from acquisition.link.cluster import Cluster, Command
from acquisition.link.resp import ReplyError
from acquisition.wire import keys, lease
from acquisition.wire.lease import Holder
from filters.leases import ownership, scripts
from filters.leases.ownership import Ownership

_RENEWALS = 4  #: per term
_EXPIRED_BY = 0.01  #: seconds after which an expiring lease has ended


class Leases:
    """``held``: partitions with a lease of this archiver at the last renewal."""

    def __init__(self, cluster: Cluster, tags: Sequence[str], me: Holder) -> None:
        self.held: set[int] = set()
        self._cluster = cluster
        self._names = [(keys.archiver(tag), keys.archivers(tag)) for tag in tags]
        self._me = lease.encode(me)
        self._milliseconds = me.milliseconds
        self._term = me.milliseconds / 1000.0
        self._due = 0.0
        self._free_since: dict[int, float] = {}

    def turn(self, now: float) -> bool:
        """Renew, take and release leases to match this archiver's share, if it is time (CLOCK_MONOTONIC). Returns
        whether it was. Raises ShardError."""
        if now < self._due:
            return False
        self._due = now + self._term / _RENEWALS
        everything = range(len(self._names))
        known = self._visit(everything, False, now)
        in_memory = self.held  # preferred if shards came back without leases
        self.held = self._mine(known) | (self.held - known.keys())
        # no reply from a shard: its partitions, whose streams cannot be read either, are kept
        waiting = [number for number, since in self._free_since.items() if now - since > self._term]
        changes = ownership.plan(self._me, len(self._names), known, in_memory, waiting)
        self.held |= self._mine(self._visit(changes.take, True, now))
        self.held -= set(changes.give)
        self._give(changes.give, False)
        return True

    def leave(self) -> None:
        """Release all leases and leave. Raises ShardError."""
        self._give(range(len(self._names)), True)
        self.held = set()

    def _mine(self, known: dict[int, Ownership]) -> set[int]:
        return {number for number, one in known.items() if one.holder == self._me}

    def _visit(self, numbers: Iterable[int], take: bool, now: float) -> dict[int, Ownership]:
        """Holders of these partitions, as far as their shards answer."""
        numbers = list(numbers)
        replies = self._ask(
            [(names[0], scripts.visit(*names, self._me, self._milliseconds, take)) for names in self._of(numbers)]
        )
        known = {}
        for number, reply in zip(numbers, replies, strict=True):
            if isinstance(reply, Exception):
                continue
            milliseconds, holder, *workers = reply
            known[number] = Ownership(holder, frozenset([holder, *workers]) - {b""})
            if holder:
                self._free_since.pop(number, None)
            else:
                self._free_since.setdefault(number, now)
            if holder != self._me:
                self._due = min(self._due, now + milliseconds / 1000.0 + _EXPIRED_BY)
        return known

    def _give(self, numbers: Iterable[int], leave: bool) -> None:
        self._ask([(names[0], scripts.give(*names, self._me, leave)) for names in self._of(numbers)])

    def _of(self, numbers: Iterable[int]) -> list[tuple[str, str]]:
        return [self._names[number] for number in numbers]

    def _ask(self, commands: list[Command]) -> list[Any]:
        """Replies to scripts, which are sent to shards that lack them."""
        replies = self._cluster.gather(commands)
        unknown = [
            place for place, reply in enumerate(replies)
            if isinstance(reply, ReplyError) and str(reply).startswith("NOSCRIPT")
        ]  # fmt: skip
        texts = [(commands[place][0], scripts.in_full(commands[place][1])) for place in unknown]
        for place, reply in zip(unknown, self._cluster.gather(texts), strict=True):
            replies[place] = reply
        return replies
