"""``/v1/snapshot``: all values of one tick."""

from __future__ import annotations

from filters.documents import columns
from filters.documents.encoding import encode_long
from filters.documents.figures import FIGURES
from filters.service.http import parameters
from filters.service.interface.resource import Parts, Request, Resource, bounded, fields, selected
from filters.service.ticks.tick_cache import TickCache


def declare(parts: Parts) -> tuple[Resource, ...]:
    """Columnar, which is compact."""

    def build(cache: TickCache, request: Request) -> bytes:
        wanted, states = selected(cache, request, parts.labels), request.chosen("state", ())
        page = columns.chosen(cache.snapshot, wanted, states, request.page)
        if not wanted.narrows_entities:
            samples = sum(min(block.shape[0], wanted.top or block.shape[0]) * block.shape[1] for block in page.blocks)
            bounded(samples, request.answer_samples)
        figures = request.chosen("fields", FIGURES)
        document = columns.snapshot_document(cache.snapshot, cache.number, wanted, page, figures)
        return encode_long(document, "blocks")

    return (
        Resource(
            "/v1/snapshot",
            "snapshot",
            "All data of one tick, by columns",
            columns.SnapshotDocument,
            build,
            parameters=(
                parameters.HOST,
                parameters.LABEL,
                parameters.SET,
                parameters.ENTITY,
                parameters.ENTITY_LABEL,
                parameters.METRIC,
                parameters.STATE,
                parameters.TOP,
                parameters.READING,
                parameters.HOSTS,
                parameters.AFTER,
                fields(FIGURES, "all"),
            ),
            problems=("422",),
        ),
    )
