"""Executor of answers not yet built: each once, with bounded concurrency."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from acquisition.config.serve import ServeLimits
from filters.service.http.problem import Problem
from filters.service.ticks.tick_cache import Answer, Build, NewestCache, TickCache

_BUILDERS = 2
_MOST_WAITING = 64  #: answers being built or waiting for it


class Executor:
    """Builds answers; ``newest`` is the newest tick, ``latest`` reads the newest one of every row."""

    def __init__(self, newest: NewestCache, limits: ServeLimits, latest: Callable[[], Awaitable[TickCache]]) -> None:
        self.newest = newest
        self.latest = latest
        self.limits = limits
        self._threads = ThreadPoolExecutor(_BUILDERS, "answer")
        self._under_way: dict[tuple[bytes, str], asyncio.Future[Answer]] = {}

    def close(self) -> None:
        """Stop building answers."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def answer(self, key: str, build: Build, content_type: bytes, cache: TickCache) -> Answer:
        """The answer of a tick for a key. Raises Problem as ``build`` does, 503 if too many wait."""
        known = cache.known(key)
        if known is not None:
            return known
        name = (cache.etag, key)
        future = self._under_way.get(name)
        if future is None:
            if len(self._under_way) >= _MOST_WAITING:
                raise Problem(503, "busy", "too many concurrent requests: try again", {b"retry-after": b"1"})
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(self._threads, cache.make, key, build, content_type)
            self._under_way[name] = future
            future.add_done_callback(partial(self._done, name))
        return await asyncio.shield(future)

    def _done(self, name: tuple[bytes, str], future: asyncio.Future[Answer]) -> None:
        self._under_way.pop(name, None)
        if not future.cancelled():
            future.exception()  # if the caller has left, no one needs it
