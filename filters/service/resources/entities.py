"""``/v1/entities/{id}`` and its ``recent`` values: one process or VM."""

from __future__ import annotations

from acquisition.snapshot.block import Block
from filters.documents import entities, recent
from filters.documents.encoding import encode
from filters.documents.figures import READING as FIGURES_OF_READING
from filters.service.parameters import METRIC, READING
from filters.service.problem import not_found
from filters.service.resource import Parts, Request, Resource, fields
from filters.service.selecting import require, selected
from filters.service.tick_cache import TickCache

_IDENTITY = {"id": "identity in 16 hexadecimal digits"}


def declare(parts: Parts) -> tuple[Resource, ...]:
    """Its figures now, and those of the last ticks, which are read from the shards when they are asked for."""
    labels, recents = parts.labels, parts.recents

    def now(cache: TickCache, request: Request) -> bytes:
        chosen = selected(cache, request, labels)
        block, row = _found(cache, request.path["id"])
        figures = request.chosen("fields", FIGURES_OF_READING)
        table = cache.tables.get((block.host_id, block.set_id))
        return encode(entities.entity_answer(cache.snapshot, block, row, chosen, figures, table, labels.of_entity))

    def before(cache: TickCache, request: Request) -> bytes:
        require(cache, request)
        block, row = _found(cache, request.path["id"])
        owner = (block.host_id, block.set_id)
        rows = recents.read([owner]).get(owner)
        names = [metric.name for metric in block.metrics] + list(rows.metrics if rows is not None else ())
        chosen = [name for name in dict.fromkeys(names) if request.selection.takes_metric(name)]
        return encode(recent.recent_answer(cache.snapshot, block, row, rows, chosen))

    return (
        Resource(
            "/v1/entities/{id}",
            "entity",
            "One process or VM: where it is, also while it migrates, and its figures",
            entities.EntityAnswer,
            now,
            parameters=(METRIC, READING, fields(FIGURES_OF_READING, "all")),
            in_path=_IDENTITY,
        ),
        Resource(
            "/v1/entities/{id}/recent",
            "recent",
            "The last 120 ticks of one process or VM, or of a host itself: raw against smoothed",
            recent.RecentAnswer,
            before,
            parameters=(METRIC,),
            in_path=_IDENTITY,
        ),
    )


def _found(cache: TickCache, key: str) -> tuple[Block, int]:
    """Block and row of an entity by its id in hexadecimal. Raises Problem (404)."""
    try:
        place = cache.entities.find(int(key, 16)) if len(key) == 16 and key.isalnum() else None
    except ValueError:
        place = None
    if place is None:
        raise not_found(f"there is no entity {key!r}: ids are 16 hexadecimal digits, /v1/snapshot lists them", "id")
    return place
