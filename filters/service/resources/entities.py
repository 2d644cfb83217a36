"""``/v1/entities/{id}`` and its ``recent`` values: one process or VM."""

from __future__ import annotations

import re

from acquisition.snapshot.values.block import Block
from acquisition.snapshot.vms.evidence import VM
from filters.documents import entities, recent
from filters.documents.encoding import encode
from filters.documents.figures import READING as FIGURES_OF_READING
from filters.judging.whereabouts import whereabouts
from filters.service.http.parameters import METRIC, READING
from filters.service.http.problem import not_found
from filters.service.interface.resource import Parts, Request, Resource, fields, require, selected
from filters.service.ticks.tick_cache import TickCache

_IN_HEX = re.compile("[0-9A-Fa-f]{16}")
_IDENTITY = {
    "id": "id of 16 hexadecimal digits, or a stable id: the uuid of a VM (follows it while it migrates), or "
    "HOST:PID of a process"
}


def declare(parts: Parts) -> tuple[Resource, ...]:
    """Its current figures, and those of the last ticks, read from the shards on request."""
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
            "One process or VM: its host, also while it migrates, and its figures",
            entities.EntityAnswer,
            now,
            parameters=(METRIC, READING, fields(FIGURES_OF_READING, "all")),
            in_path=_IDENTITY,
        ),
        Resource(
            "/v1/entities/{id}/recent",
            "recent",
            "The last 120 ticks of one process, VM or host, raw and smoothed",
            recent.RecentAnswer,
            before,
            parameters=(METRIC,),
            in_path=_IDENTITY,
        ),
    )


def _found(cache: TickCache, key: str) -> tuple[Block, int]:
    """Block and row of an entity by its id in hexadecimal or its stable id. Raises Problem (404)."""
    if _IN_HEX.fullmatch(key):
        place = cache.entities.find(int(key, 16))
    else:
        found = whereabouts(cache.snapshot, key, (VM, "process"), by_name=False)
        place = (found[0].block, found[0].row) if found else None
    if place is None:
        known = "ids are 16 hexadecimal digits, or the uuid of a VM; /v1/snapshot lists them"
        raise not_found(f"unknown entity {key!r}: {known}", "id")
    return place
