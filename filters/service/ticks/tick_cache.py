"""One tick: its picture with every answer that was made from it.

The reading thread publishes tick caches; requests only read them. An answer is encoded when it is first asked
for (the prepared ones before the cache is published) and shared by all who ask for the same.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING

from acquisition.snapshot import Snapshot
from filters.documents.entities import EntityIndex
from filters.service.http.answer import Answer
from filters.service.http.problem import Problem, unavailable

if TYPE_CHECKING:
    from filters.decisions.deciding import Decided
    from filters.judging.judge import Judged, Tables

#: Makes the body of an answer from a tick.
Build = Callable[["TickCache"], bytes]

_CACHED_BYTES = 128 << 20  #: answers of one tick that are kept for others who ask the same
_CACHED_ANSWERS = 512


class TickCache:
    """The snapshot of one tick. ``number`` grows by at least one from one to the next, also when the clock
    steps back; it is the tick where the clock does not."""

    def __init__(
        self,
        number: int,
        instance: str,
        snapshot: Snapshot,
        judged: Judged | None = None,
        tables: Tables | None = None,
    ) -> None:
        self.number = number
        self.snapshot = snapshot
        self.decided = judged.decided if judged is not None else None
        self.verdicts = self.decided  #: with those that have changed since the tick
        self.tables: Tables = judged.tables if judged is not None else tables or {}
        self.made = time.monotonic()
        self.etag = f'W/"{number}-{instance}"'.encode()
        self._instance, self._renewals = instance, 0
        self._answers: dict[str, Answer] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def age_seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self.made

    @cached_property
    def entities(self) -> EntityIndex:
        """Where each entity stands."""
        return EntityIndex(self.snapshot.blocks)

    def with_verdicts(self, decided: Decided, paths: Collection[str]) -> TickCache:
        """The same tick with other verdicts; answers are kept but for those of ``paths``."""
        made = copy.copy(self)
        made.verdicts = decided
        made._renewals = self._renewals + 1
        made.etag = f'W/"{self.number}-{self._instance}.{made._renewals}"'.encode()
        with self._lock:
            made._answers = {key: each for key, each in self._answers.items() if key.partition("?")[0] not in paths}
        made._bytes = sum(each.size for each in made._answers.values())
        made._lock = threading.Lock()
        return made

    def parts(self) -> list[object]:
        """What it mostly consists of. Who holds these when the cache goes can let go of one after the other: to
        free thousands of hosts at once would keep the interpreter, and every answer waiting."""
        found: list[object] = [*self.snapshot.blocks, *self.snapshot.unread, *self.tables.values()]
        for decided in filter(None, (self.decided, self.verdicts)):
            found += [*decided.picture.hosts, *decided.heat.verdicts.values()]
        return found

    def known(self, key: str) -> Answer | None:
        """The answer that was made for a key, if it was."""
        return self._answers.get(key)

    def make(self, key: str, build: Build, content_type: bytes) -> Answer:
        """The answer for a key, made by ``build`` unless it is there; may be called from any thread."""
        found = self._answers.get(key)
        if found is not None:
            return found
        answer = Answer(build(self), self.etag, content_type)
        if answer.slow_to_compress:
            answer.compress()
        with self._lock:
            if len(self._answers) < _CACHED_ANSWERS and self._bytes + answer.size <= _CACHED_BYTES:
                self._answers[key] = answer
                self._bytes += answer.size
        return answer


class Outage:
    """Why there is no new picture: nothing could be read."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.since = time.monotonic()


class NewestCache:
    """What is to be answered with now: the newest cache, or the problem that it is missing.

    Written by one thread, read by any: each field is replaced as a whole.
    """

    def __init__(self, stale_seconds: float) -> None:
        self._stale_seconds = stale_seconds
        self.last: TickCache | None = None
        self.outage: Outage | None = Outage("no picture has been taken yet")

    def publish(self, cache: TickCache) -> None:
        """A new picture; it ends an outage. The one before is let go in pieces."""
        parts = self.last.parts() if self.last is not None else []
        self.last = cache
        self.outage = None
        while parts:
            parts.pop()

    def renew(self, cache: TickCache) -> None:
        """The same picture with other verdicts."""
        self.last = cache

    def fail(self, reason: str) -> None:
        """No picture could be taken; the last one is answered no more."""
        if self.outage is None or self.outage.reason != reason:
            self.outage = Outage(reason)

    def current(self) -> TickCache:
        """The cache to answer with. Raises Problem (503) when it is missing or old."""
        last, outage = self.last, self.outage
        if outage is None and last is not None and last.age_seconds <= self._stale_seconds:
            return last
        raise self.problem()

    def problem(self) -> Problem:
        """Why there is nothing to answer with, and how old the last picture is."""
        last, outage = self.last, self.outage
        age = last.age_seconds if last is not None else None
        reason = outage.reason if outage is not None else "the shards have not answered in time"
        old = "" if age is None else f"; the last picture is {age:.1f} s old"
        return unavailable(f"{reason}{old}", age)

    def trouble(self, reason: str) -> Problem:
        """The problem (503) of a part that reads the shards by itself and could not."""
        last = self.last
        return unavailable(reason, last.age_seconds if last is not None else None)
