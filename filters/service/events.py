"""What the stream tells of a tick: a short one of every tick, and the answers of other resources by topic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from acquisition.snapshot.states import CURRENT, DOWN, LATE, UNKNOWN
from filters.decisions.verdict import Outcome
from filters.documents.chosen import by_host
from filters.documents.encoding import encode
from filters.documents.hosts import state_of
from filters.service.stream import Events, event
from filters.service.tick_cache import TickCache

#: The topic of everyone who names none.
TICK = "tick"


class TickDocument(Struct, frozen=True):
    """One tick in short: hosts by state, how many of them are hot, and how many moves are proposed; null where that
    cannot be known. ``blind`` says why no host at all can be seen."""

    tick: int
    now: float
    hosts: int
    current: int
    late: int
    unknown: int
    down: int
    hot: int | None
    moves: int | None
    errors: list[str]
    blind: str


def tick_document(cache: TickCache) -> TickDocument:
    """The short document of a tick."""
    decided = cache.decided
    if decided is not None:  # as the heat map has them: a host that sends no figures of its own is late
        states = [host.state for host in decided.picture.hosts]
    else:
        states = [state_of(blocks) for blocks in by_host(cache.snapshot.blocks)]
    return TickDocument(
        cache.number,
        round(cache.snapshot.now, 6),
        len(states),
        states.count(CURRENT),
        states.count(LATE),
        states.count(UNKNOWN),
        states.count(DOWN),
        None if decided is None or decided.blind else len(decided.heat.having(Outcome.HOT)),
        None if decided is None or decided.plan is None else len(decided.plan.moves),
        list(cache.snapshot.errors),
        cache.snapshot.blind,
    )


def events_of(cache: TickCache, wanted: Collection[str], bodies: Mapping[str, Callable[[TickCache], bytes]]) -> Events:
    """The events of a tick: always its short document, and the ``wanted`` topics by what makes their bodies.

    All bear the number of the tick: Last-Event-ID means that everything of it was sent.
    """
    texts = {TICK: event(TICK, encode(tick_document(cache)), cache.number)}
    for topic, make in bodies.items():
        if topic in wanted:
            texts[topic] = event(topic, make(cache), cache.number)
    return Events(cache.number, texts)
