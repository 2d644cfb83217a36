"""``/v1/hosts`` and ``/v1/hosts/{id}``: host figures, and one host's entities."""

from __future__ import annotations

from filters.documents import hosts
from filters.documents.encoding import encode_around, encode_long
from filters.judging.judge import TickInputs
from filters.judging.observe import observe
from filters.service.http import parameters
from filters.service.http.problem import not_found
from filters.service.interface.resource import Parts, Request, Resource, fields, hint, selected
from filters.service.ticks.tick_cache import TickCache


def declare(parts: Parts) -> tuple[Resource, ...]:
    """All hosts, and one; labels and derived readings are those used for decisions."""
    labels = parts.labels

    def view(cache: TickCache) -> hosts.HostsView:
        """A separate picture: readings are created on access, which must happen in one thread."""
        picture = observe(cache.snapshot, parts.settings.decisions, TickInputs(cache.tables))
        pictured = {host.id: host for host in picture.hosts}
        return hosts.HostsView(cache.snapshot, cache.number, cache.tables, pictured, labels.of_entity)

    def every(cache: TickCache, request: Request) -> bytes:
        wanted = selected(cache, request, labels)
        chosen, states = request.chosen("fields", hosts.FIELDS), request.chosen("state", ())
        return encode_long(hosts.hosts_document(view(cache), wanted, states, chosen, request.page), "hosts")

    def one(cache: TickCache, request: Request) -> bytes:
        wanted = selected(cache, request, labels)
        key, chosen = request.path["id"], request.chosen("fields", hosts.FIELDS)
        try:
            answer = hosts.host_answer(view(cache), key, wanted, chosen)
        except KeyError as error:
            known = [block.host for block in cache.snapshot.blocks]
            raise not_found(f"unknown host {key!r}{hint(key, known)}", "id") from error
        return encode_around(answer, "host", encode_long(answer.host, "entities"))

    return (
        Resource(
            "/v1/hosts",
            "hosts",
            "All hosts with their own figures, the ratios that rules compare, and decision inputs",
            hosts.HostsDocument,
            every,
            parameters=(
                parameters.HOST,
                parameters.LABEL,
                parameters.METRIC,
                parameters.STATE,
                parameters.READING,
                parameters.HOSTS,
                parameters.AFTER,
                fields(hosts.FIELDS, "all"),
            ),
        ),
        Resource(
            "/v1/hosts/{id}",
            "host",
            "One host with its VMs and processes",
            hosts.HostAnswer,
            one,
            parameters=(
                parameters.SET,
                parameters.ENTITY,
                parameters.ENTITY_LABEL,
                parameters.METRIC,
                parameters.TOP,
                parameters.READING,
                fields(hosts.FIELDS, "all"),
            ),
            in_path={"id": "name or id of 16 hexadecimal digits"},
        ),
    )
