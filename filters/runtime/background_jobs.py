"""Background jobs for blocking work: connecting, loading, reading the slot map.

A shard that hangs or loses packets answers only by a timeout. Meanwhile the loop must continue with the
other shards and renew its leases, so such work is done in threads, one per lane
(a shard), and its outcome is passed back to the loop.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from queue import SimpleQueue
from typing import Any

#: Result of a job, or the exception it raised.
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
        """Descriptor for poll."""
        return self._event

    @property
    def is_open(self) -> bool:
        """Whether outcomes are delivered to the loop; after ``close`` they are only cleaned up."""
        return self._event >= 0

    def submit(self, lane: Hashable, job: Callable[[], Any], done: Callable[[Outcome], None]) -> None:
        """Run ``job`` after earlier jobs of the same lane; ``deliver`` calls ``done`` with its outcome.

        After ``close`` a running job calls ``done`` itself, in its thread, for cleanup; the outcome of a job
        that had not started is None.
        """
        queue = self._lanes.get(lane)
        if queue is None:
            queue = self._lanes[lane] = SimpleQueue()
            threading.Thread(target=self._work, args=(queue,), name=f"background {lane}", daemon=True).start()
        queue.put((job, done))

    def deliver(self) -> None:
        """Call back with the outcomes of finished jobs."""
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return
        while self._outcomes:
            done, outcome = self._outcomes.popleft()
            done(outcome)

    def close(self) -> None:
        """End the threads, each after its current job; repeated calls are harmless."""
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
            except Exception as error:  # the loop handles it, as if raised there
                outcome = error
            with self._lock:
                if self._event >= 0:
                    self._outcomes.append((done, outcome))
                    os.eventfd_write(self._event, 1)
                    continue
            done(outcome)
