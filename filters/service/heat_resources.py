"""``/v1/roster`` and ``/v1/heat``: what a heat map of all hosts needs, once and at every tick."""

from __future__ import annotations

from acquisition.config.decisions import Decisions
from filters.decisions.picture import Picture
from filters.judging.observe import observe
from filters.service.documents import heat
from filters.service.documents.encoding import encode
from filters.service.documents.loads import loads
from filters.service.edition import Edition
from filters.service.resource import Request, Resource


def heat_resources(settings: Decisions) -> tuple[Resource, ...]:
    """Both; the heat is also a topic of the stream."""

    def picture(edition: Edition) -> Picture:
        """Names and states of hosts. Their readings belong to the thread that judges: nobody looks at them here."""
        return edition.decided.picture if edition.decided is not None else observe(edition.snapshot, settings)

    def roster(edition: Edition, _: Request) -> bytes:
        return encode(heat.roster_document(edition.number, picture(edition)))

    def now(edition: Edition, _: Request) -> bytes:
        verdicts = edition.decided.heat.verdicts if edition.decided is not None else {}
        known = loads(edition.snapshot.blocks, edition.tables)
        return encode(heat.heat_document(edition.number, picture(edition), verdicts, known))

    return (
        Resource(
            "/v1/roster", "roster", "Names of all hosts, in the order of /v1/heat", (), heat.RosterDocument, roster
        ),
        Resource(
            "/v1/heat", "heat", "All hosts by columns: load, state, verdict", (), heat.HeatDocument, now, topic=True
        ),
    )
