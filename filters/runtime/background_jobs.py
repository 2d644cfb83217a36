"""Background jobs for blocking work: connecting, loading, reading the slot map.

A shard that hangs or whose packets vanish answers only by a timeout. The loop must go on with the
other shards meanwhile and renew its leases, so such work is done in threads, one per lane
(a shard), and its outcome is handed back to the loop.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from queue import SimpleQueue
from typing import Any

#: What a job answered, or the exception that it raised.
Outcome = Any
_Work = tuple[Callable[[], Any], Callable[[Outcome], None]]


class BackgroundJobs:
    """``fileno`` becomes readable when outcomes wait for ``deliver``."""

    def __init__(self) -> None:
        self._lanes: dict[Hashable, SimpleQueue[_Work | None]] = {}
        self._outcomes: deque[tuple[Callable[[Outcome], None], Outcome]] = deque()
        self._lock = threading.Lock()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """For poll."""
        return self._event

    @property
    def is_open(self) -> bool:
        """Whether outcomes are still for the loop; after ``close`` they are only to be cleaned up."""
        return self._event >= 0

    def submit(self, lane: Hashable, job: Callable[[], Any], done: Callable[[Outcome], None]) -> None:
        """Run ``job`` after those before it in the same lane; ``deliver`` calls ``done`` with its outcome.

        After ``close`` a job that was under way calls ``done`` itself, in its thread, so that it can clean up; for one
        that had not begun the outcome is None.
        """
        queue = self._lanes.get(lane)
        if queue is None:
            queue = self._lanes[lane] = SimpleQueue()
            threading.Thread(target=self._work, args=(queue,), name=f"background {lane}", daemon=True).start()
        queue.put((job, done))

    def deliver(self) -> None:
        """Hand over the outcomes of what has ended."""
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return
        while self._outcomes:
            done, outcome = self._outcomes.popleft()
            done(outcome)

    def close(self) -> None:
        """End the threads, each after what it is doing; calling it again is harmless."""
        with self._lock:
            if self._event < 0:
                return
            os.close(self._event)
            self._event = -1
        for queue in self._lanes.values():
            queue.put(None)
        while self._outcomes:
            done, outcome = self._outcomes.popleft()
            done(outcome)

    def _work(self, queue: SimpleQueue[_Work | None]) -> None:
        while (work := queue.get()) is not None:
            job, done = work
            try:
                outcome = job() if self._event >= 0 else None
            except Exception as error:  # the loop judges it, as if it had been raised there
                outcome = error
            with self._lock:
                if self._event >= 0:
                    self._outcomes.append((done, outcome))
                    os.eventfd_write(self._event, 1)
                    continue
            done(outcome)
