"""Intruder with a probe's password, beside a probe and a filter.

Each of the two runs as its user.
"""

from __future__ import annotations

import contextlib

from acquisition.link.cluster import Cluster
from acquisition.link.resp import Connection
from acquisition.shards.servers import grants
from acquisition.shards.servers.launch import Shards
from acquisition.wire import keys
from tests.support.granted import user
from tests.support.writer_bench import Pipeline


class Intruded(Pipeline):
    """``own`` is the filter's connection; ``raw`` the stream of the probe's partition."""

    def __init__(self, shards: Shards, cluster: Cluster) -> None:
        super().__init__(cluster, shards.addresses, credentials=user(grants.PROBE))
        self.own = Cluster(shards.addresses, user(grants.FILTER))
        self.raw = keys.raw(self.tag)

    def close(self) -> None:
        super().close()
        self.own.close()

    def forge(self, *command: object) -> bytes:
        """What a command of the intruder returns."""
        with contextlib.closing(Connection(self.cluster.owner(self.raw), user(grants.PROBE))) as connection:
            answer: bytes = connection.call(*command)
            return answer

    def applies(self, count: int = 3) -> None:
        """Offer frames and wait until the filter has applied them."""
        last = self.offer(count)
        self.turn_until(lambda: (found := self.position()) is not None and found.sequence == last)
