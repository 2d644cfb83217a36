"""``/v1/status`` and ``/metrics``: the pipeline's own condition, for people and for Prometheus."""

from __future__ import annotations

import time
from functools import partial

import msgspec
from starlette.types import Receive, Scope, Send

from acquisition.errors import EXIT_OK, EXIT_TEMPORARY, EXIT_UNBALANCED, ShardpulseError
from acquisition.snapshot.books import Account
from acquisition.status.command import exit_code
from acquisition.status.document import document
from acquisition.status.health import DOWN, Health
from filters import exposition
from filters.documents.encoding import encode
from filters.exposition import FIGURES, Options, Prepared, Syntax
from filters.exposition.options import HOSTS, INPUTS
from filters.service import parameters
from filters.service.answer import Answer, send_answer
from filters.service.application import Desk, no_picture
from filters.service.condition import Condition, Look
from filters.service.parameters import Parameter, Values
from filters.service.stream import Hub
from filters.service.tick_cache import Newest, TickCache

_VERDICTS = {EXIT_OK: "ok", EXIT_UNBALANCED: "unbalanced", EXIT_TEMPORARY: "empty"}
_MOST_ACCOUNTS = 100
#: What a scrape may narrow or widen: the cardinality that its Prometheus has to bear.
METRICS_PARAMETERS = (
    Parameter("entities", "whether processes and VMs have series (default: yes)", ("yes", "no"), single=True),
    Parameter(
        "figure", "figures of each process and VM, separated by commas (default: mean); hosts have all",
        tuple(FIGURES),
        listed=True,
    ),
    Parameter("inputs", f"whose decision inputs (default: {HOSTS})", INPUTS, single=True),
)  # fmt: skip


class ServiceStatus(msgspec.Struct, frozen=True):
    """The query service itself: streams, and those that were cut off because their clients did not read."""

    tick: int | None
    age_seconds: float | None
    streams: int
    streams_cut_off: int
    trouble: str


class StatusEndpoint:
    """The document of ``shardpulse status --json`` and the service's own figures beside it."""

    def __init__(self, condition: Condition, newest: Newest, hub: Hub, query_bytes: int) -> None:
        self._condition = condition
        self._newest = newest
        self._hub = hub
        self._query_bytes = query_bytes
        self._made: tuple[Look, Answer] | None = None

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """One request. Raises Problem (400, 503)."""
        parameters.parse(scope["query_string"], (), self._query_bytes)
        try:
            look = await self._condition.look()
        except ShardpulseError as error:
            raise no_picture(str(error), self._newest) from error
        if self._made is None or self._made[0] is not look:
            etag = f'W/"status-{time.time():.3f}"'.encode()
            self._made = look, Answer(self._body(look.health), etag)
        await send_answer(self._made[1], scope, send)

    def _body(self, found: Health) -> bytes:
        code = exit_code(found)
        kinds = {finding.kind for finding in found.findings}
        verdict = _VERDICTS.get(code, "down" if DOWN in kinds else "stale")
        last, outage = self._newest.last, self._newest.outage
        own = ServiceStatus(
            None if last is None else last.number,
            None if last is None else round(last.age_seconds, 3),
            len(self._hub),
            self._hub.slow,
            "" if outage is None else outage.reason,
        )
        whole = document(found, self._condition.set_names, _in_trouble(found), verdict, code)
        return encode({**whole, "service": own})


def _in_trouble(found: Health) -> list[Account]:
    accounts = found.books.accounts if found.books is not None else []
    return [row for row in accounts if row.faults or not row.known or row.lost or row.gaps][:_MOST_ACCOUNTS]


class MetricsEndpoint:
    """OpenMetrics or the classic text format of the newest tick and of the pipeline's condition."""

    def __init__(self, desk: Desk, condition: Condition, options: Options, query_bytes: int) -> None:
        self._desk = desk
        self._condition = condition
        self._options = options
        self._query_bytes = query_bytes
        self._prepared = Prepared()

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """One scrape. Raises Problem (400, 503)."""
        values = parameters.parse(scope["query_string"], METRICS_PARAMETERS, self._query_bytes)
        cache = self._desk.newest.current()
        accept = b",".join(value for name, value in scope["headers"] if name == b"accept").decode("latin-1")
        form = exposition.negotiate(accept or None)
        try:
            health = (await self._condition.look()).health
        except ShardpulseError:
            health = None
        build = partial(self._build, form, health, self._chosen(values))
        key = f"/metrics {form.content_type} {parameters.canonical(values)}"
        answer = await self._desk.answer(key, build, form.content_type.encode(), cache)
        await send_answer(answer, scope, send)

    def _chosen(self, values: Values) -> Options:
        own = self._options
        entities = values["entities"] == ("yes",) if "entities" in values else own.entities
        (inputs,) = values.get("inputs", (own.inputs,))
        return own._replace(entities=entities, figures=values.get("figure", own.figures), inputs=inputs)

    def _build(self, form: Syntax, health: Health | None, options: Options, cache: TickCache) -> bytes:
        return exposition.render(cache.snapshot, health, options, form, self._prepared, cache.tables)
