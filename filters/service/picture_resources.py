"""The resources that show the picture itself: path, parameters, and how a tick answers."""

from __future__ import annotations

from acquisition.config.decisions import Decisions
from acquisition.snapshot.block import Block
from filters.documents import columns, entities, hosts, planes, recent
from filters.documents.encoding import encode, encode_around, encode_long
from filters.documents.figures import FIGURES
from filters.documents.figures import READING as FIGURES_OF_READING
from filters.judging.labels import Labels
from filters.judging.observe import observe
from filters.judging.sources import TickInputs
from filters.service.heat_resources import heat_resources
from filters.service.parameters import ENTITY, ENTITY_LABEL, HOST, LABEL, METRIC, READING, SET, TOP, Parameter
from filters.service.problem import not_found
from filters.service.recents import Recents
from filters.service.resource import Request, Resource, bounded, fields, hint, require, selected
from filters.service.tick_cache import TickCache

STATE = Parameter("state", "only what is in one of these states", hosts.STATES)


def _view(cache: TickCache, settings: Decisions, labels: Labels) -> hosts.HostsView:
    """A picture of its own: readings are made when they are looked at, which is for one thread."""
    picture = observe(cache.snapshot, settings, TickInputs(cache.tables))
    pictured = {host.id: host for host in picture.hosts}
    return hosts.HostsView(cache.snapshot, cache.number, cache.tables, pictured, labels.of_entity)


def found(cache: TickCache, key: str) -> tuple[Block, int]:
    """Block and row of an entity by its id in hexadecimal. Raises Problem (404)."""
    try:
        place = cache.entities.find(int(key, 16)) if len(key) == 16 and key.isalnum() else None
    except ValueError:
        place = None
    if place is None:
        raise not_found(f"there is no entity {key!r}: ids are 16 hexadecimal digits, /v1/snapshot lists them", "id")
    return place


_IDENTITY = "identity in 16 hexadecimal digits"


def picture_resources(labels: Labels) -> tuple[Resource, ...]:
    """Everything of one tick, and one entity of it."""

    def snapshot(cache: TickCache, request: Request) -> bytes:
        wanted, states = selected(cache, request, labels), request.chosen("state", ())
        blocks = columns.chosen(cache.snapshot, wanted, states)
        if not wanted.narrows_entities:
            samples = sum(min(block.shape[0], wanted.top or block.shape[0]) * block.shape[1] for block in blocks)
            bounded(samples, request.answer_samples)
        figures = request.chosen("fields", FIGURES)
        document = columns.snapshot_document(cache.snapshot, cache.number, wanted, states, figures)
        return encode_long(document, "blocks")

    def entity(cache: TickCache, request: Request) -> bytes:
        chosen = selected(cache, request, labels)
        block, row = found(cache, request.path["id"])
        figures = request.chosen("fields", FIGURES_OF_READING)
        table = cache.tables.get((block.host_id, block.set_id))
        return encode(entities.entity_answer(cache.snapshot, block, row, chosen, figures, table, labels.of_entity))

    return (
        Resource(
            "/v1/snapshot",
            "snapshot",
            "One coherent tick of everything, by columns",
            (HOST, LABEL, SET, ENTITY, ENTITY_LABEL, METRIC, STATE, TOP, READING, fields(FIGURES, "all")),
            columns.SnapshotDocument,
            snapshot,
        ),
        Resource(
            "/v1/entities/{id}",
            "entity",
            "One process or VM: where it is and its figures",
            (METRIC, READING, fields(FIGURES_OF_READING, "all")),
            entities.EntityAnswer,
            entity,
            in_path={"id": _IDENTITY},
        ),
        Resource(
            "/v1/figures",
            "figures",
            "What is kept of every sample: names and units",
            (),
            planes.FiguresDocument,
            lambda _edition, _request: encode(planes.figures_document()),
        ),
    )


def host_resources(settings: Decisions, labels: Labels) -> tuple[Resource, ...]:
    """All hosts, and one; labels and derived readings are those that decisions go by."""

    def all_hosts(cache: TickCache, request: Request) -> bytes:
        wanted = selected(cache, request, labels)
        chosen, states = request.chosen("fields", hosts.FIELDS), request.chosen("state", ())
        return encode_long(hosts.hosts_document(_view(cache, settings, labels), wanted, states, chosen), "hosts")

    def one_host(cache: TickCache, request: Request) -> bytes:
        wanted = selected(cache, request, labels)
        key, chosen = request.path["id"], request.chosen("fields", hosts.FIELDS)
        try:
            answer = hosts.host_answer(_view(cache, settings, labels), key, wanted, chosen)
        except KeyError as error:
            known = [block.host for block in cache.snapshot.blocks]
            raise not_found(f"there is no host {key!r}{hint(key, known)}", "id") from error
        return encode_around(answer, "host", encode_long(answer.host, "entities"))

    return (
        Resource(
            "/v1/hosts",
            "hosts",
            "All hosts with their own figures",
            (HOST, LABEL, METRIC, STATE, READING, fields(hosts.FIELDS, "all")),
            hosts.HostsDocument,
            all_hosts,
        ),
        Resource(
            "/v1/hosts/{id}",
            "host",
            "One host with everything that runs on it",
            (SET, ENTITY, ENTITY_LABEL, METRIC, TOP, READING, fields(hosts.FIELDS, "all")),
            hosts.HostAnswer,
            one_host,
            in_path={"id": "name or identity in 16 hexadecimal digits"},
        ),
        *heat_resources(settings),
    )


def recent_resources(recents: Recents) -> tuple[Resource, ...]:
    """The recent values of an entity, which are read when they are asked for."""

    def build(cache: TickCache, request: Request) -> bytes:
        require(cache, request)
        block, row = found(cache, request.path["id"])
        owner = (block.host_id, block.set_id)
        rows = recents.read([owner]).get(owner)
        names = [metric.name for metric in block.metrics] + list(rows.metrics if rows is not None else ())
        chosen = [name for name in dict.fromkeys(names) if request.selection.takes_metric(name)]
        return encode(recent.recent_answer(cache.snapshot, block, row, rows, chosen))

    return (
        Resource(
            "/v1/entities/{id}/recent",
            "recent",
            "The last 120 ticks of one process or VM, or of a host itself: raw against smoothed",
            (METRIC,),
            recent.RecentAnswer,
            build,
            in_path={"id": _IDENTITY},
        ),
    )
