"""``/v1/moves``: which VM should move, where to, and why."""

from __future__ import annotations

from filters.documents.encoding import encode
from filters.documents.verdicts import PROPOSALS, MovesDocument, moves_document, narrowed
from filters.service.http.parameters import ENTITY_LABEL, HOST, LABEL, LIMIT, Parameter
from filters.service.interface.resource import (
    Parts,
    Request,
    Resource,
    decided_of,
    entity_labels,
    hosts_of,
    require_labels,
)
from filters.service.ticks.tick_cache import TickCache

LISTS = Parameter("list", "lists to answer with (default: all)", PROPOSALS)


def declare(parts: Parts) -> tuple[Resource, ...]:
    """``host`` and ``label`` select sources, ``entity_label`` VMs."""
    labels = parts.labels

    def build(cache: TickCache, request: Request) -> bytes:
        made, sources, vms = decided_of(cache), hosts_of(cache, request, labels), request.entity_labels
        if vms:
            require_labels(ENTITY_LABEL, vms, entity_labels(cache, labels))
        if made.plan is not None and request.values:
            made = made._replace(plan=narrowed(made.plan, sources, vms))
        chosen, most = request.chosen(LISTS.name, PROPOSALS), request.number(LIMIT)
        return encode(moves_document(made, chosen, most, cache.number))

    return (
        Resource(
            "/v1/moves",
            "moves",
            "Proposed moves of VMs with reasons, and rejected options",
            MovesDocument,
            build,
            parameters=(HOST, LABEL, ENTITY_LABEL, LIMIT, LISTS),
            prepared=True,
            topic=True,
        ),
    )
