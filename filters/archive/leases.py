"""Which partitions this archiver follows: leases that only save work.

Two archivers that follow one partition write nothing twice (``Store.commit`` is guarded), they only do the work twice.
So these leases are simpler than the filter's (docs/decisions/0013): whoever comes first has a partition until it lets
go or is not heard of for a term; a second archiver stands by.
"""

from __future__ import annotations

from collections.abc import Sequence

from acquisition.link.cluster import Cluster, Command
from acquisition.wire import keys, lease
from acquisition.wire.lease import Holder

_RENEWALS = 4  #: in a term


class Leases:
    """``held`` are the partitions whose leases were had when it was asked last."""

    def __init__(self, cluster: Cluster, tags: Sequence[str], me: Holder) -> None:
        self.held: set[int] = set()
        self._cluster = cluster
        self._keys = [keys.archiver(tag) for tag in tags]
        self._me = lease.encode(me)
        self._term = me.milliseconds
        self._due = 0.0

    def turn(self, now: float) -> bool:
        """Renew and take what is free, when it is time (CLOCK_MONOTONIC); whether it was. Raises ShardError."""
        if now < self._due:
            return False
        self._due = now + self._term / 1000.0 / _RENEWALS
        commands: list[Command] = []
        for key in self._keys:
            commands += [(key, ("SET", key, self._me, "NX", "PX", str(self._term))), (key, ("GET", key))]
        holders = self._cluster.gather(commands)[1::2]
        # a shard that does not answer says nothing: its partitions are kept, whose streams cannot be read either
        mine = {number for number, holder in enumerate(holders) if holder == self._me}
        unknown = {number for number, holder in enumerate(holders) if isinstance(holder, Exception)}
        self.held = mine | (self.held & unknown)
        self._cluster.gather(
            [(self._keys[number], ("PEXPIRE", self._keys[number], str(self._term))) for number in mine]
        )
        return True

    def leave(self) -> None:
        """Give all of them back. Raises ShardError."""
        self._cluster.gather([(self._keys[number], ("DEL", self._keys[number])) for number in self.held])
        self.held = set()
