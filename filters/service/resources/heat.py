"""``/v1/roster`` and ``/v1/heat``: names once, values at every tick.

For a heat map of all hosts.
"""

from __future__ import annotations

from filters.decisions.picture import Picture
from filters.documents import heat
from filters.documents.encoding import encode
from filters.documents.heat import loads
from filters.judging.observe import observe
from filters.service.interface.resource import Parts, Request, Resource
from filters.service.ticks.tick_cache import TickCache


def declare(parts: Parts) -> tuple[Resource, ...]:
    """Both; the heat is also a topic of the stream."""

    def picture(cache: TickCache) -> Picture:
        """Names and states of hosts. Their readings belong to the thread that judges and are not used here."""
        return cache.decided.picture if cache.decided is not None else observe(cache.snapshot, parts.settings.decisions)

    def roster(cache: TickCache, _: Request) -> bytes:
        return encode(heat.roster_document(cache.number, picture(cache)))

    def now(cache: TickCache, _: Request) -> bytes:
        decided, known = cache.decided, loads(cache.snapshot.blocks, cache.tables)
        verdicts, blind = ({}, "") if decided is None else (decided.heat.verdicts, decided.blind)
        return encode(heat.heat_document(cache.number, picture(cache), verdicts, known, blind))

    names = "Names of all hosts, in the order of /v1/heat"
    columns = "All hosts by columns: load in thousandths, state, verdict"
    return (
        Resource("/v1/heat", "heat", columns, heat.HeatDocument, now, topic=True),
        Resource("/v1/roster", "roster", names, heat.RosterDocument, roster),
    )
