"""Tick cache: one tick's picture with all answers built from it.

The reading thread publishes tick caches; requests only read them. An answer is encoded when it is first requested (the
prepared ones before the cache is published) and shared by all equal requests. Its entity tag is weak (RFC 9110, section
8.8.1): the same tick means the same whatever its encoding. Both variants of the whole ASGI message are made once, so
that an answer costs two calls of ``send``.
"""

from __future__ import annotations

import copy
import threading
import time
import zlib
from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

from starlette.types import Message, Scope, Send

from acquisition.snapshot import Snapshot
from filters.documents.entities import EntityIndex
from filters.service.http.problem import Problem, unavailable

if TYPE_CHECKING:
    from filters.decisions.deciding import Decided
    from filters.judging.judge import Judged, Tables

JSON = b"application/json"
_SMALLEST = 1024  #: bytes below which compression saves no packet
_LEVEL = 1  #: zlib: 12 kB of verdicts become 1.2 kB in less than 0.1 ms; the highest levels gain little
_PIECE = 256 << 10  #: bytes passed to a connection at once
_EMPTY: Message = {"type": "http.response.body", "body": b""}


class Answer:
    """One representation of one resource at one tick. Created once, immutable except for its caches."""

    __slots__ = ("_plain", "_squeezed", "body", "content_type", "etag", "not_modified")

    def __init__(self, body: bytes, etag: bytes, content_type: bytes = JSON) -> None:
        self.body = body
        self.etag = etag
        self.content_type = content_type
        self.not_modified = _start(304, [(b"etag", etag), *_COMMON])
        self._plain = (self._head(len(body)), {"type": "http.response.body", "body": body})
        self._squeezed: tuple[Message, Message] | None = None

    def compress(self) -> None:
        """Make the compressed variant; small answers are not compressed."""
        if len(self.body) < _SMALLEST:
            self._squeezed = self._plain
            return
        packer = zlib.compressobj(_LEVEL, wbits=31)
        data = packer.compress(self.body) + packer.flush()
        self._squeezed = (self._head(len(data), gzip=True), {"type": "http.response.body", "body": data})

    @property
    def size(self) -> int:
        """Size in bytes."""
        squeezed = self._squeezed
        more = 0 if squeezed is None or squeezed is self._plain else len(squeezed[1]["body"])
        return len(self.body) + more

    @property
    def slow_to_compress(self) -> bool:
        """Whether making the compressed variant is still pending and takes more than about a millisecond."""
        return self._squeezed is None and len(self.body) > 65536

    def messages(self, gzip: bool) -> tuple[Message, Message]:
        """Head and body to send."""
        if not gzip:
            return self._plain
        if self._squeezed is None:
            self.compress()
        assert self._squeezed is not None
        return self._squeezed

    def _head(self, length: int, gzip: bool = False) -> Message:
        headers = [
            (b"content-type", self.content_type),
            (b"content-length", b"%d" % length),
            (b"etag", self.etag),
            *_COMMON,
        ]
        if gzip:
            headers.append((b"content-encoding", b"gzip"))
        return _start(200, headers)


_COMMON = [
    (b"cache-control", b"no-cache"),
    (b"vary", b"accept, accept-encoding"),
    (b"x-content-type-options", b"nosniff"),
]


async def send_answer(answer: Answer, scope: Scope, send: Send) -> None:
    """Send the response that matches the request's headers: nothing new (304), compressed or plain."""
    none_match, encoding = conditions(scope)
    if none_match is not None and matches(none_match, answer.etag):
        await send(answer.not_modified)
        await send(_EMPTY)
        return
    head, body = answer.messages(accepts_gzip(encoding))
    await send(head)
    if len(body["body"]) <= _PIECE or scope["method"] == "HEAD":
        await send(body)
        return
    whole = memoryview(body["body"])
    for start in range(0, len(whole), _PIECE):  # each waits until the client has taken the previous ones
        end = start + _PIECE
        await send({"type": "http.response.body", "body": whole[start:end], "more_body": end < len(whole)})


def conditions(scope: Scope) -> tuple[bytes | None, bytes]:
    """``If-None-Match`` (None: absent) and ``Accept-Encoding`` (empty: absent) of a request; repeated fields
    are one list (RFC 9110, section 5.3)."""
    none_match: bytes | None = None
    encoding = b""
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            none_match = value if none_match is None else none_match + b"," + value
        elif name == b"accept-encoding":
            encoding = encoding + b"," + value if encoding else value
    return none_match, encoding


def matches(none_match: bytes, etag: bytes) -> bool:
    """Whether an ``If-None-Match`` names the tag, by weak comparison (RFC 9110, section 13.1.2)."""
    if none_match == etag:
        return True
    tags = [tag.strip() for tag in none_match.split(b",")]
    return b"*" in tags or etag.removeprefix(b"W/") in [tag.removeprefix(b"W/") for tag in tags]


def accepts_gzip(encoding: bytes) -> bool:
    """Whether an ``Accept-Encoding`` allows gzip with a weight above 0 (RFC 9110, section 12.5.3)."""
    if b"gzip" not in encoding and b"*" not in encoding:
        return False
    weights: dict[bytes, bool] = {}
    for part in encoding.lower().split(b","):
        name, _, parameters = part.partition(b";")
        weights[name.strip()] = parameters.strip().replace(b" ", b"") not in _NEVER
    return weights.get(b"gzip", weights.get(b"*", False))


_NEVER = (b"q=0", b"q=0.", b"q=0.0", b"q=0.00", b"q=0.000")


def _start(status: int, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": headers}


# -- One tick, and the newest one.

#: Makes the body of an answer from a tick.
Build = Callable[["TickCache"], bytes]

_CACHED_BYTES = 128 << 20  #: answers of one tick that are cached for equal requests
_CACHED_ANSWERS = 512


class TickCache:
    """The snapshot of one tick. ``number`` grows by at least one from one to the next, even if the clock
    steps back; otherwise it is the tick."""

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
        self.verdicts = self.decided  #: including those that have changed since the tick
        self.tables: Tables = judged.tables if judged is not None else tables or {}
        self.made = time.monotonic()
        self.etag = f'W/"{number}-{instance}"'.encode()
        self._instance, self._renewals = instance, 0
        self._answers: dict[str, Answer] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def age_seconds(self) -> float:
        """Seconds since its creation."""
        return time.monotonic() - self.made

    @cached_property
    def entities(self) -> EntityIndex:
        """Positions of all entities."""
        return EntityIndex(self.snapshot.blocks)

    def with_verdicts(self, decided: Decided, paths: Collection[str]) -> TickCache:
        """The same tick with other verdicts; answers are kept except those of ``paths``."""
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
        """Most of its parts. A holder of these can release them one by one after the cache is gone: freeing thousands
        of hosts at once would hold the interpreter and delay all answers."""
        found: list[object] = [*self.snapshot.blocks, *self.snapshot.unread, *self.tables.values()]
        for decided in filter(None, (self.decided, self.verdicts)):
            found += [*decided.picture.hosts, *decided.heat.verdicts.values()]
        return found

    def known(self, key: str) -> Answer | None:
        """The cached answer for a key, if any."""
        return self._answers.get(key)

    def make(self, key: str, build: Build, content_type: bytes) -> Answer:
        """The answer for a key, made by ``build`` unless cached; thread-safe."""
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
    """Reason there is no new picture: nothing could be read."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.since = time.monotonic()


class NewestCache:
    """Source of answers: the newest cache, or the problem of its absence.

    Written by one thread, read by any: each field is replaced as a whole.
    """

    def __init__(self, stale_seconds: float) -> None:
        self._stale_seconds = stale_seconds
        self.last: TickCache | None = None
        self.outage: Outage | None = Outage("no snapshot yet")

    def publish(self, cache: TickCache) -> None:
        """Set a new picture; ends an outage. The previous one is freed in pieces."""
        parts = self.last.parts() if self.last is not None else []
        self.last = cache
        self.outage = None
        while parts:
            parts.pop()

    def renew(self, cache: TickCache) -> None:
        """Set the same picture with other verdicts."""
        self.last = cache

    def fail(self, reason: str) -> None:
        """Record that no picture could be taken; the last one is no longer used for answers."""
        if self.outage is None or self.outage.reason != reason:
            self.outage = Outage(reason)

    def current(self) -> TickCache:
        """The cache for answers. Raises Problem (503) if it is missing or old."""
        last, outage = self.last, self.outage
        if outage is None and last is not None and last.age_seconds <= self._stale_seconds:
            return last
        raise self.problem()

    def problem(self) -> Problem:
        """Reason there is no answer, and the age of the last picture."""
        last, outage = self.last, self.outage
        age = last.age_seconds if last is not None else None
        reason = outage.reason if outage is not None else "shards timed out"
        old = "" if age is None else f"; the last snapshot is {age:.1f} s old"
        return unavailable(f"{reason}{old}", age)

    def trouble(self, reason: str) -> Problem:
        """The problem (503) of a part that failed to read the shards itself."""
        last = self.last
        return unavailable(reason, last.age_seconds if last is not None else None)
