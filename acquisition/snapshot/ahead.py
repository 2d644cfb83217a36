"""Reading ahead: a thread takes the same readings as those who ask, so that whoever asks finds most of it read.

Whoever asks takes a reading of his own, behind one that is under way: what is answered is never older than the
question. The thread reads when nobody has read for a while, so it is rarely in the way of who asks again at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from acquisition.errors import ShardpulseError

_AFTER_ERROR = 1.0  #: seconds

T = TypeVar("T")
U = TypeVar("U")


class Ahead(Generic[T]):
    """Takes readings with ``read``, which nobody else may call before ``close``; any thread may ask. ``pause`` says
    behind each how many seconds later the thread reads if nobody has asked; it does so with ``prepare``, which may
    read less. What it cannot read is told to who asks."""

    def __init__(self, read: Callable[[], T], pause: Callable[[], float], prepare: Callable[[], object]) -> None:
        self._read, self._pause, self._prepare = read, pause, prepare
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._next = 0.0  #: when the thread is to read (CLOCK_MONOTONIC)
        self._thread = threading.Thread(target=self._read_ahead, name="reading ahead", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, after what it is reading."""
        self._ended.set()
        self._thread.join()

    def ask(self) -> T:
        """A reading of now. Raises what ``read`` raises."""
        with self._lock:
            return self._take(self._read)

    def _take(self, read: Callable[[], U]) -> U:
        self._next = time.monotonic() + _AFTER_ERROR
        found = read()
        self._next = time.monotonic() + self._pause()
        return found

    def _read_ahead(self) -> None:
        while not self._ended.wait(max(0.0, self._next - time.monotonic())):
            with self._lock:
                if time.monotonic() < self._next:  # somebody has asked meanwhile
                    continue
                try:
                    self._take(self._prepare)
                except ShardpulseError:
                    continue
