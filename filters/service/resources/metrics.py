"""``/metrics``: the newest tick and the condition of the pipeline for Prometheus."""

from __future__ import annotations

from functools import partial

from starlette.types import Receive, Scope, Send

from acquisition.errors import ShardpulseError
from acquisition.status.health import Health
from filters.decisions.verdict import Outcome
from filters.prometheus import CLASSIC, FIGURES, OPENMETRICS, Options, Prepared, Syntax, negotiate, render
from filters.prometheus.samples import HOSTS, INPUTS
from filters.service.http import parameters
from filters.service.http.parameters import Parameter, Values
from filters.service.interface.resource import Parts, Resource
from filters.service.ticks.tick_cache import TickCache, send_answer

#: Options that narrow or widen a scrape: they determine the cardinality for its Prometheus.
_PARAMETERS = (
    Parameter("entities", "whether processes and VMs have series (default: yes)", ("yes", "no"), single=True),
    Parameter(
        "figure", "figures of each process and VM (default: mean); hosts have all",
        tuple(FIGURES),
    ),
    Parameter("inputs", f"entities with decision inputs (default: {HOSTS})", INPUTS, single=True),
)  # fmt: skip


def declare(parts: Parts) -> tuple[Resource, ...]:
    """OpenMetrics or the classic text format, as requested by the scraper."""
    scrape = Scrape(parts)
    media = (OPENMETRICS.media_type, CLASSIC.media_type)
    return (
        Resource(
            "/metrics", "metrics", "Metrics for Prometheus", handle=scrape.answer, parameters=_PARAMETERS, media=media
        ),
    )


class Scrape:
    """Answers scrapes; parts that depend only on names are prepared once."""

    def __init__(self, parts: Parts) -> None:
        self._executor = parts.executor
        self._condition = parts.condition
        self._prepared = Prepared()

    async def answer(self, values: Values, scope: Scope, _: Receive, send: Send) -> None:
        """One scrape. Raises Problem (503)."""
        cache = self._executor.newest.current()
        accept = b",".join(value for name, value in scope["headers"] if name == b"accept").decode("latin-1")
        form = negotiate(accept or None)
        try:
            health = (await self._condition.look()).health
        except ShardpulseError:
            health = None
        build = partial(self._build, form, health, _chosen(values))
        key = f"/metrics {form.content_type} {parameters.canonical(values)}"
        answer = await self._executor.answer(key, build, form.content_type.encode(), cache)
        await send_answer(answer, scope, send)

    def _build(self, form: Syntax, health: Health | None, options: Options, cache: TickCache) -> bytes:
        decided = cache.verdicts
        outcomes = None
        if decided is not None and not decided.blind:
            outcomes = {each.value: [int(host, 16) for host in decided.heat.having(each)] for each in Outcome}
        return render(cache.snapshot, health, options, form, self._prepared, cache.tables, outcomes)


def _chosen(values: Values) -> Options:
    own = Options()
    entities = values["entities"] == ("yes",) if "entities" in values else own.entities
    (inputs,) = values.get("inputs", (own.inputs,))
    return own._replace(entities=entities, figures=values.get("figure", own.figures), inputs=inputs)
