"""Server-sent events: every tick to all listeners, encoded once.

A listener has a bounded queue. A client that does not read is disconnected when it is full, so that no one waits
for it and no memory grows; it reconnects with Last-Event-ID and gets the missed events, as far as they are
kept. Format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from acquisition.snapshot.values.states import CURRENT, DOWN, LATE, UNKNOWN
from filters.decisions.verdict import Outcome
from filters.documents.chosen import by_host
from filters.documents.encoding import encode
from filters.documents.hosts import state_of
from filters.service.ticks.tick_cache import TickCache

#: Sent at the start of a stream: reconnection delay in milliseconds.
RETRY = b"retry: 1000\n\n"
#: A comment, so that both ends notice a lost connection.
KEEP_ALIVE = b": still here\n\n"
KEEP_ALIVE_SECONDS = 10.0
_KEPT_TICKS = 120
_KEPT_BYTES = 32 << 20


class Events(NamedTuple):
    """Events of one tick: event text by topic, in sending order."""

    number: int
    by_topic: dict[str, bytes]

    def text(self, topics: Iterable[str]) -> bytes:
        """Events of some topics in one piece."""
        return b"".join(self.by_topic[topic] for topic in topics if topic in self.by_topic)

    @property
    def size(self) -> int:
        """Bytes of all events."""
        return sum(map(len, self.by_topic.values()))


def event(topic: str, data: bytes, number: int | None) -> bytes:
    """One event; ``data`` is JSON without line breaks. ``number``: value of Last-Event-ID."""
    identity = b"id: %d\n" % number if number is not None else b""
    return b"event: %s\n%sdata: %s\n\n" % (topic.encode(), identity, data)


class Listener:
    """One client. ``queue``: pieces not sent yet; ``ended``: reason for the end of
    the stream: ``slow`` (disconnected at once) or ``closing`` (after the queued pieces)."""

    def __init__(self, topics: Sequence[str], most: int) -> None:
        self.topics = tuple(topics)
        self.most = most
        self.queue: deque[bytes] = deque()
        self.ended = ""
        self.wake = asyncio.Event()
        self.over = asyncio.Event()

    def offer(self, piece: bytes) -> None:
        """Queue a piece; a listener with a full queue is ended."""
        if not piece or self.ended:
            return
        if len(self.queue) >= self.most:
            self.end("slow")
            return
        self.queue.append(piece)
        self.wake.set()

    def end(self, why: str) -> None:
        """End the listener."""
        self.ended = self.ended or why
        self.wake.set()
        self.over.set()


class Hub:
    """All listeners and the last events. Lives in the event loop's thread; ``topics`` may be read from any thread."""

    def __init__(self, most_listeners: int, queue: int) -> None:
        self._most = most_listeners
        self._queue = queue
        self._listeners: set[Listener] = set()
        self._kept: deque[Events] = deque()
        self._bytes = 0
        self.topics: frozenset[str] = frozenset()  #: topics with at least one listener
        self.slow = 0  #: number of disconnected listeners
        self.closed = False

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def full(self) -> bool:
        """Whether no more listeners are accepted."""
        return len(self._listeners) >= self._most

    def join(self, topics: Sequence[str], last: int | None) -> Listener:
        """Add a listener: it receives the events missed since tick ``last``, or the newest one."""
        listener = Listener(topics, self._queue)
        pieces = [RETRY]
        if last is None:
            pieces += [self._kept[-1].text(topics)] if self._kept else []
        else:
            pieces += self._missed(topics, last)
        listener.offer(b"".join(pieces))
        self._listeners.add(listener)
        self._count_topics()
        return listener

    def leave(self, listener: Listener) -> None:
        """Remove a listener."""
        self._listeners.discard(listener)
        self._count_topics()
        if listener.ended == "slow":
            self.slow += 1

    def tell(self, events: Events) -> None:
        """Store the events of a tick and queue them for all listeners."""
        self._kept.append(events)
        self._bytes += events.size
        while len(self._kept) > _KEPT_TICKS or (self._bytes > _KEPT_BYTES and len(self._kept) > 1):
            self._bytes -= self._kept.popleft().size
        texts: dict[tuple[str, ...], bytes] = {}
        for listener in self._listeners:
            text = texts.get(listener.topics)
            if text is None:
                text = texts[listener.topics] = events.text(listener.topics)
            listener.offer(text)

    def tell_one(self, topic: str, piece: bytes) -> None:
        """Queue one piece for all listeners of a topic; it is not stored, as the next tick repeats it."""
        for listener in self._listeners:
            if topic in listener.topics:
                listener.offer(piece)

    def tell_all(self, piece: bytes) -> None:
        """Queue one piece for all listeners, whatever their topics; it is not stored."""
        for listener in self._listeners:
            listener.offer(piece)

    def close(self) -> None:
        """End all streams, in order, and accept no more listeners."""
        self.closed = True
        for listener in self._listeners:
            listener.end("closing")

    def _missed(self, topics: Sequence[str], last: int) -> list[bytes]:
        """Events after ``last``, preceded by a gap if not all of them are stored."""
        newer = [events for events in self._kept if events.number > last]
        if not newer and self._kept and self._kept[-1].number < last:  # from another clock, or another service
            newer = [self._kept[-1]]
        first = newer[0].number if newer else None
        kept = any(events.number == last for events in self._kept)
        gap = [event("gap", b'{"after":%d}' % last, None)] if first is not None and not kept else []
        return gap + [events.text(topics) for events in newer]

    def _count_topics(self) -> None:
        self.topics = frozenset(topic for listener in self._listeners for topic in listener.topics)


# -- Contents of the stream per tick: a summary of every tick, and the answers of other resources by topic.

#: The topic of listeners that name none.
TICK = "tick"


class TickDocument(Struct, frozen=True):
    """One tick in short: hosts by state, how many of them are hot, suspect and saturated, and how many moves are
    proposed; null where that cannot be known. ``blind`` says why no host at all can be seen."""

    tick: int
    now: float
    hosts: int
    current: int
    late: int
    unknown: int
    down: int
    hot: int | None
    suspect: int | None
    saturated: int | None
    moves: int | None
    errors: list[str]
    blind: str


def tick_document(cache: TickCache) -> TickDocument:
    """Summary document of a tick."""
    decided = cache.decided
    if decided is not None:  # as in the heat map: a host without its own figures is late
        states = [host.state for host in decided.picture.hosts]
    else:
        states = [state_of(blocks) for blocks in by_host(cache.snapshot.blocks)]
    counts = {} if decided is None or decided.blind else {each: len(decided.heat.having(each)) for each in Outcome}
    return TickDocument(
        cache.number,
        round(cache.snapshot.now, 6),
        len(states),
        states.count(CURRENT),
        states.count(LATE),
        states.count(UNKNOWN),
        states.count(DOWN),
        counts.get(Outcome.HOT),
        counts.get(Outcome.SUSPECT),
        counts.get(Outcome.SATURATED),
        None if decided is None or decided.plan is None else len(decided.plan.moves),
        list(cache.snapshot.errors),
        cache.snapshot.blind,
    )


def events_of(cache: TickCache, wanted: Collection[str], bodies: Mapping[str, Callable[[TickCache], bytes]]) -> Events:
    """The events of a tick: always its summary document, and the ``wanted`` topics, with functions for their bodies.

    All have the number of the tick: Last-Event-ID means that all events of that tick were sent.
    """
    texts = {TICK: event(TICK, encode(tick_document(cache)), cache.number)}
    for topic, make in bodies.items():
        if topic in wanted:
            texts[topic] = event(topic, make(cache), cache.number)
    return Events(cache.number, texts)
