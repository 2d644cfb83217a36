"""``/v1/vms`` and ``/v1/hosts/{id}/neighbours``: VMs and noisy neighbours."""

from __future__ import annotations

from filters.documents import vms
from filters.documents.encoding import encode_long
from filters.service.http.parameters import AFTER, ENTITY, ENTITY_LABEL, HOST, HOSTS, LABEL, LIMIT, READING
from filters.service.http.problem import not_found
from filters.service.interface.resource import Parts, Request, Resource, hint, selected
from filters.service.ticks.tick_cache import TickCache


def declare(parts: Parts) -> tuple[Resource, ...]:
    """The VMs of all hosts, and of one, by run time and by suffering."""
    of_entity = parts.labels.of_entity

    def every(cache: TickCache, request: Request) -> bytes:
        wanted = selected(cache, request, parts.labels)
        return encode_long(vms.vms_document(cache.snapshot, cache.number, wanted, request.page, of_entity), "vms")

    def neighbours(cache: TickCache, request: Request) -> bytes:
        key, most = request.path["id"], request.number(LIMIT)
        try:
            document = vms.neighbours_document(cache.snapshot, cache.number, key, of_entity, most)
        except KeyError as error:
            known = [block.host for block in cache.snapshot.blocks]
            raise not_found(f"unknown host {key!r}{hint(key, known)}", "id") from error
        return encode_long(document, "by_run_time", "by_suffering")

    return (
        Resource(
            "/v1/vms",
            "vms",
            "All VMs with owner ids, vCPUs, use, suffering and state",
            vms.VmsDocument,
            every,
            parameters=(HOST, LABEL, ENTITY, ENTITY_LABEL, READING, HOSTS, AFTER),
        ),
        Resource(
            "/v1/hosts/{id}/neighbours",
            "neighbours",
            "Noisy and suffering VMs of one host: by run time, and by suffering",
            vms.NeighboursDocument,
            neighbours,
            parameters=(LIMIT, READING),
            in_path={"id": "name or id of 16 hexadecimal digits"},
        ),
    )
