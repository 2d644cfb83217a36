"""The condition of the pipeline for /v1/status and /metrics: looked at when somebody asks, once per tick at most.

A look reads the books of all hosts, which costs more than a picture, so it is made on demand, by one
thread with connections of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from acquisition.config import endpoints, metric_registry
from acquisition.config.settings import Settings
from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.shards.topology.nodes import Members
from acquisition.status import health
from acquisition.status.health import Health


class Look(NamedTuple):
    """What one look found, and when (monotonic)."""

    health: Health
    made: float


class Condition:
    """Looks at the pipeline; ``set_names`` are resource sets by number. Use from one event loop."""

    def __init__(self, settings: Settings) -> None:
        self.set_names: Mapping[int, str] = metric_registry.set_names()
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, "condition")
        self._cluster: Cluster | None = None
        self._last: Look | None = None
        self._under_way: asyncio.Future[Look] | None = None

    def close(self) -> None:
        """Look no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def look(self) -> Look:
        """The condition now, at most one interval old. Raises ShardpulseError when no shard answers."""
        last = self._last
        if last is not None and time.monotonic() - last.made < self._settings.serve.interval_seconds:
            return last
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.get_running_loop().run_in_executor(self._thread, self._read)
        self._last = await asyncio.shield(self._under_way)
        return self._last

    def _read(self) -> Look:
        shards = self._settings.shards
        try:
            if self._cluster is None:
                self._cluster = endpoints.connect(shards)
            seeds, user = endpoints.seeds(shards), endpoints.credentials(shards)
            with Members(seeds, user, shards.timeout_seconds) as members:
                down_after = self._settings.snapshot.down_after_seconds
                return Look(health.read(self._cluster, members, self.set_names, down_after), time.monotonic())
        except ShardpulseError:
            if self._cluster is not None:
                self._cluster.close()
                self._cluster = None
            raise
