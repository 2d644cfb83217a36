"""Readings at the pace of the ticks, in a thread of their own: a shard that hangs never holds up a key."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from acquisition.errors import ShardpulseError
from acquisition.snapshot import Snapshot
from filters.top.contents import Observation
from filters.top.reading import Source, Wanted

_LATENESS = 0.02  #: seconds after the grace time of a tick is over, for what is being written
_FASTEST = 0.5
Outcome = Observation | Exception


class Feed:
    """``fileno`` is readable while an outcome waits for ``take``; a context manager that ends the thread.

    ``open_source`` is called in the thread. Readings follow the ends of the grace time of ticks that
    are ``interval`` long, so that each finds one new tick; the first is at once. Without an interval it is
    that of the hosts. Between two readings lies at least as much time as the first of them took.
    """

    def __init__(
        self, open_source: Callable[[], AbstractContextManager[Source]], interval: float | None, grace: float
    ) -> None:
        self._open, self._given, self._grace = open_source, interval, grace
        self._interval = interval or 1.0
        self._condition = threading.Condition()
        self._wanted = Wanted()
        self._asked_anew = False
        self._closed = False
        self._outcome: Outcome | None = None
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._work, name="feed", daemon=True)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify()

    def fileno(self) -> int:
        """For poll."""
        return self._event

    def ask(self, wanted: Wanted) -> None:
        """What the next readings are to hold; something else than before is read at once."""
        with self._condition:
            if wanted != self._wanted:
                self._asked_anew = wanted.health or bool(wanted.host)  # closing needs nothing new
                self._wanted = wanted
                self._condition.notify()

    def take(self) -> Outcome | None:
        """The newest outcome, once: an observation, or the error because of which there is none."""
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return None
        with self._condition:
            outcome, self._outcome = self._outcome, None
        return outcome

    def _work(self) -> None:
        try:
            with self._open() as source:
                while not self._closed:
                    began = time.monotonic()
                    self._read(source)
                    self._rest(time.monotonic() - began)
        except Exception as error:  # the screen must be left before anything is said
            self._hand_over(error)

    def _read(self, source: Source) -> None:
        with self._condition:
            wanted, self._asked_anew = self._wanted, False
        try:
            found = source.read(wanted)
        except ShardpulseError as error:
            self._hand_over(error)
            return
        if self._given is None:
            self._interval = pace_of(found.snapshot)
        self._hand_over(found)

    def _rest(self, took: float) -> None:
        """Until the next tick is complete, or something else is asked for."""
        left = until_next(self._interval, self._grace)
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._asked_anew, max(left, took))

    def _hand_over(self, outcome: Outcome) -> None:
        with self._condition:
            self._outcome = outcome
            os.eventfd_write(self._event, 1)


def until_next(interval: float, grace: float) -> float:
    """Seconds until the grace time of the next tick of this interval is over."""
    since = (time.time() - grace - _LATENESS) / interval
    return (math.floor(since) + 1 - since) * interval


def pace_of(snapshot: Snapshot) -> float:
    """Seconds between two readings: the shortest interval of all hosts, but no faster than eyes are."""
    intervals = [block.interval for block in snapshot.blocks if block.interval > 0]
    return max(_FASTEST, min(intervals, default=1.0))
