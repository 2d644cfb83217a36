"""Executor of store calls: a thread, so that a hung database blocks nothing."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from filters.archive.database.store import Store

Call = Callable[[Store], Any]


class Executor:
    """Runs one call at a time; its outcome is handled in ``turn``, in the caller's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._done = threading.Event()
        self._answer: Any = None
        self._error: Exception | None = None
        self._then: Callable[[Any], None] | None = None
        self._asked = 0.0
        # a daemon: the process does not wait at its end for a database that does not answer
        threading.Thread(target=self._work, name="archive database", daemon=True).start()

    @property
    def idle(self) -> bool:
        """Whether no call is in progress."""
        return self._then is None

    @property
    def waited(self) -> float:
        """Seconds since the start of the current call, 0 without one."""
        return 0.0 if self.idle else time.monotonic() - self._asked

    def ask(self, call: Call, then: Callable[[Any], None]) -> None:
        """Run ``call``, and ``then`` with its result; only when ``idle``."""
        assert self.idle
        self._then, self._asked = then, time.monotonic()
        self._calls.put(call)

    def turn(self, patience: float = 0.0) -> None:
        """Handle a result that arrives within ``patience`` seconds. Raises the exception of the call instead."""
        if self._then is None or not self._done.wait(patience):
            return
        then, answer, error = self._then, self._answer, self._error
        self._then = self._answer = self._error = None
        self._done.clear()
        if error is not None:
            raise error
        then(answer)

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            try:
                self._answer = call(self._store)
            except Exception as error:  # passed to the caller
                self._error = error
            self._done.set()
