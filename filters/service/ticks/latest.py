"""The ``latest`` reading beside the coherent one: taken when somebody asks, shared by all who ask meanwhile.

Each row is its own newest tick with its age: fresher by up to an interval and the grace time than the picture of
the reading thread, which waits until a tick is complete, but of several ticks at once. No decision is made from it.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from concurrent.futures import ThreadPoolExecutor

from acquisition.config.settings import Settings
from acquisition.errors import ShardpulseError
from acquisition.model import ticks
from acquisition.snapshot import Snapshot, SnapshotReader
from filters.service.http.problem import unavailable
from filters.service.ticks.reading_thread import takes_sets
from filters.service.ticks.tick_cache import NewestCache, TickCache

_SHARED_SECONDS = 0.1  #: a request so soon after another gets the same picture
_REST = 2.0  #: the reader rests for so many times as long as a reading takes: a million VMs are no load on the shards


class LatestReading:
    """One thread with a reader of its own. Use from one event loop."""

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
        """Read no more; connections are closed once the reading under way has ended."""
        self._thread.submit(self._end)
        self._thread.shutdown(wait=False)

    def _end(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def current(self) -> TickCache:
        """The newest of every row. Raises Problem (503) while the shards cannot be read."""
        self._newest.current()  # during an outage nobody waits until one more connection has timed out
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
        while parts:  # in pieces, as that of the reading thread
            parts.pop()
        return found


def version_of(snapshot: Snapshot) -> str:
    """A word that differs when a row has a newer tick, another state, or an error came or went."""
    digest = hashlib.blake2b(repr(snapshot.errors).encode("utf-8", "surrogatepass"), digest_size=8)
    for block in snapshot.blocks:
        epoch = block.head.epoch if block.head is not None else 0
        digest.update(f"{block.host_id} {block.set_id} {epoch} {block.tick} {block.state} {block.reason}\n".encode())
    return digest.hexdigest()
