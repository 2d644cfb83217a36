"""What the stream tells of an edition: a short one of every tick, and the answers of other resources by topic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from acquisition.snapshot.block import CURRENT, DOWN, LATE
from filters.decisions.heat import by_heat
from filters.service.documents.encoding import encode
from filters.service.documents.hosts import by_host, state_of
from filters.service.edition import Edition
from filters.service.stream import Events, event

#: The topic of everyone who names none.
TICK = "tick"


class TickDocument(Struct, frozen=True):
    """One tick in short: hosts by state, and how many of them are hot, and how many moves
    are proposed (null: the log of migrations could not be read)."""

    tick: int
    now: float
    hosts: int
    current: int
    late: int
    down: int
    hot: int | None
    moves: int | None
    errors: list[str]


def tick_document(edition: Edition) -> TickDocument:
    """The short document of an edition."""
    decided = edition.decided
    if decided is not None:  # as the heat map has them: a host that sends no figures of its own is late
        states = [host.state for host in decided.picture.hosts]
    else:
        states = [state_of(blocks) for blocks in by_host(edition.snapshot.blocks)]
    return TickDocument(
        edition.number,
        round(edition.snapshot.now, 6),
        len(states),
        states.count(CURRENT),
        states.count(LATE),
        states.count(DOWN),
        None if decided is None else len(by_heat(decided.heat)),
        None if decided is None or decided.plan is None else len(decided.plan.moves),
        list(edition.snapshot.errors),
    )


def events_of(edition: Edition, wanted: Collection[str], bodies: Mapping[str, Callable[[Edition], bytes]]) -> Events:
    """The events of an edition: always its tick, and the ``wanted`` topics by what makes their bodies.

    All bear the number of the edition: Last-Event-ID means that everything of it was sent.
    """
    texts = {TICK: event(TICK, encode(tick_document(edition)), edition.number)}
    for topic, make in bodies.items():
        if topic in wanted:
            texts[topic] = event(topic, make(edition), edition.number)
    return Events(edition.number, texts)
