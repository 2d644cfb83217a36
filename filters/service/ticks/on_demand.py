"""Readings on demand: latest rows, recent values, condition of the pipeline.

They cost too much to be read with every picture, or must be fresher. Each has its own connections.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from acquisition.config import endpoints, metric_registry
from acquisition.config.settings import Settings
from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.model import ticks
from acquisition.shards.topology.nodes import Members
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.recent import RecentTable
from acquisition.status import health
from acquisition.status.health import Health
from filters.service.http.problem import unavailable
from filters.service.ticks.reading_thread import takes_sets
from filters.service.ticks.tick_cache import NewestCache, TickCache

_SHARED_SECONDS = 0.1  #: a request this soon after another gets the same picture
_REST = 2.0  #: pause of the reader as a multiple of the reading time: a million VMs are no load on the shards


class LatestReading:
    """The newest tick of every row, read by one thread, shared by concurrent requests. Use from one event loop.

    Each row has its own newest tick with its age: fresher by up to an interval and the grace time than the picture of
    the reading thread, which waits until a tick is complete, but with several ticks at once. Not used for decisions.
    """

    def __init__(self, settings: Settings, newest: NewestCache) -> None:
        self._settings = settings
        self._newest = newest
        self._takes = takes_sets(settings.serve.resource_sets)
        self._instance = secrets.token_hex(4)
        self._thread = ThreadPoolExecutor(1, "latest")
        self._reader: SnapshotReader | None = None
        self._last: TickCache | None = None
        self._fresh_until = 0.0
        self._under_way: asyncio.Future[TickCache] | None = None

    def close(self) -> None:
        """Stop reading; connections are closed after the current reading."""
        self._thread.submit(self._end)
        self._thread.shutdown(wait=False)

    def _end(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def current(self) -> TickCache:
        """The newest tick of every row. Raises Problem (503) while the shards cannot be read."""
        self._newest.current()  # no wait for another connection timeout during an outage
        if self._last is not None and time.monotonic() < self._fresh_until:
            return self._last
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.get_running_loop().run_in_executor(self._thread, self._read)
        try:
            return await asyncio.shield(self._under_way)
        except ShardpulseError as error:
            raise unavailable(str(error), None) from error

    def _read(self) -> TickCache:
        began = time.monotonic()
        try:
            if self._reader is None:
                self._reader = SnapshotReader.from_settings(self._settings)
            snapshot = self._reader.latest(self._takes)
            tables = self._reader.inputs(snapshot)
        except ShardpulseError:
            self._end()
            raise
        number = ticks.tick_of(snapshot.now, self._settings.serve.interval_seconds)
        found = TickCache(number, f"{self._instance}-{version_of(snapshot)}", snapshot, tables=tables)
        parts = self._last.parts() if self._last is not None else []
        self._last = found
        now = time.monotonic()
        self._fresh_until = now + max(_SHARED_SECONDS, _REST * (now - began))
        while parts:  # in pieces, like that of the reading thread
            parts.pop()
        return found


def version_of(snapshot: Snapshot) -> str:
    """A token that changes when a row has a newer tick or another state, or an error comes or goes."""
    digest = hashlib.blake2b(repr(snapshot.errors).encode("utf-8", "surrogatepass"), digest_size=8)
    for block in snapshot.blocks:
        epoch = block.head.epoch if block.head is not None else 0
        digest.update(f"{block.host_id} {block.set_id} {epoch} {block.tick} {block.state} {block.reason}\n".encode())
    return digest.hexdigest()


class Recents:
    """Reads the last 120 ticks of resource sets, for one thread at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._reader: SnapshotReader | None = None

    def read(self, owners: Sequence[Owner]) -> Mapping[Owner, RecentTable]:
        """The tables; absent ones are omitted. Raises Problem (503) if no shard answers."""
        if not owners:
            return {}
        with self._lock:
            try:
                if self._reader is None:
                    self._reader = SnapshotReader.from_settings(self._settings)
                return self._reader.recent(owners)
            except ShardpulseError as error:
                self._close()
                raise unavailable(f"cannot read recent values: {error}", None) from error

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class Look(NamedTuple):
    """Result of one look at the pipeline, with its time (monotonic)."""

    health: Health
    made: float


class Condition:
    """Condition of the pipeline, read at most once per tick, since that covers the books of all hosts.

    ``set_names`` are resource sets by number. Use from one event loop.
    """

    def __init__(self, settings: Settings) -> None:
        self.set_names: Mapping[int, str] = metric_registry.set_names()
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, "condition")
        self._cluster: Cluster | None = None
        self._last: Look | None = None
        self._under_way: asyncio.Future[Look] | None = None

    def close(self) -> None:
        """Stop reading."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def look(self) -> Look:
        """The condition now, at most one interval old. Raises ShardpulseError if no shard answers."""
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
