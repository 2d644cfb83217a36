"""Shard map of partitions, refreshed in the background when in doubt."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from acquisition.errors import ShardpulseError, TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address
from acquisition.log import SHARDS, TroubleLog
from acquisition.wire import keys
from acquisition.wire.layout import Layout
from filters.runtime.background_jobs import BackgroundJobs, Outcome

_PAUSE = 0.2
_LANE = "map"


class ShardMap:
    """``places``: partitions by shard; a new object whenever some of them move.

    ``log`` gets errors of reading the map.
    """

    def __init__(
        self,
        cluster: Cluster,
        layout: Layout,
        background: BackgroundJobs,
        log: TroubleLog,
    ) -> None:
        self._cluster = cluster.another()
        self._keys = [keys.raw(tag) for tag in layout.tags]
        self._background = background
        self._log = log
        self._addresses: list[Address | None] = [None] * layout.partitions
        self.places: Mapping[Address, Sequence[int]] = {}
        self._doubted = self._reading = False
        self._again = 0.0

    def where(self, number: int) -> Address | None:
        """The shard of a partition, None if unknown."""
        return self._addresses[number]

    def doubt(self) -> None:
        """Read the map again: at once, or at the next ``look`` after a read in progress or just finished."""
        self._doubted = True
        self.look()

    def look(self) -> None:
        """Read the map again if in doubt, still or since a read failed: a shard that answers again at its old address
        may hold another one now, and no one who reaches it would doubt that."""
        if self._doubted and not self._reading and time.monotonic() >= self._again:
            self._doubted, self._reading = False, True
            self._background.submit(_LANE, self._read, self._done)

    def close(self) -> None:
        """Close the connections when they are no longer used."""
        self._background.submit(_LANE, lambda: None, lambda _: self._cluster.close())

    def _read(self) -> list[Address | None]:
        self._cluster.refresh()
        return [self._owner(key) for key in self._keys]

    def _owner(self, key: str) -> Address | None:
        try:
            return self._cluster.owner(key)
        except TemporaryError:
            return None

    def _done(self, outcome: Outcome) -> None:
        self._reading = False
        self._again = time.monotonic() + _PAUSE
        if isinstance(outcome, ShardpulseError):
            self._doubted = True
            self._log.fails(SHARDS, outcome)
        elif isinstance(outcome, Exception):
            raise outcome
        elif outcome is not None and outcome != self._addresses:
            self._addresses = outcome
            places: dict[Address, list[int]] = {}
            for number, address in enumerate(outcome):
                if address is not None:
                    places.setdefault(address, []).append(number)
            self.places = places
