"""The service as a whole: its parts, put together and taken apart again.

One thread reads, threads of the desk build answers, the event loop sends; between them go frozen values.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from acquisition.config.settings import Settings
from filters.decisions.method import method_of
from filters.documents.encoding import encode
from filters.exposition import CLASSIC, OPENMETRICS, Options
from filters.judging.judge import TickJudge
from filters.judging.labels import Labels
from filters.runtime.memory import TickSweeper
from filters.service import parameters
from filters.service.access import Access
from filters.service.answer import Answer, send_answer
from filters.service.application import Desk, application, endpoint, route
from filters.service.condition import Condition
from filters.service.decision_resources import decision_resources
from filters.service.events import TICK, events_of
from filters.service.latest import LatestReading
from filters.service.migrations import MigrationDocument, MigrationReport, MigrationsDocument, MigrationsEndpoint
from filters.service.openapi import Operation, document
from filters.service.page import page_routes
from filters.service.parameters import Parameter
from filters.service.picture_resources import host_resources, picture_resources, recent_resources
from filters.service.reading_thread import ReadingThread
from filters.service.recents import Recents
from filters.service.resource import Request, Resource
from filters.service.status import METRICS_PARAMETERS, MetricsEndpoint, StatusEndpoint
from filters.service.stream import Hub, event
from filters.service.stream_endpoint import StreamEndpoint
from filters.service.tick_cache import Newest, TickCache

#: Threads take turns at the interpreter this often: a picture that is being decoded delays no answer for long.
_SWITCH_SECONDS = 0.0005
#: TLS and other libraries may leave a cycle for each connection: they are looked for so often, in one pause.
_WHOLE_SWEEP_SECONDS = 3600.0
_SWEEP_AFTER = 0.25  #: of the interval
_GET = ("GET",)
_Argument = TypeVar("_Argument")
_TEXT = {"schema": {"type": "string"}}
_LAST_EVENT = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "the last event that was seen: what came since is sent first, as far as it is kept",
    "schema": {"type": "integer", "minimum": 0, "maximum": 1 << 53},
}
_STATUS = {
    "type": "object",
    "required": ["verdict", "now", "books", "sets", "hosts", "shards", "workers", "findings", "service"],
    "properties": {"verdict": {"enum": ["ok", "unbalanced", "down", "stale", "empty"]}},
}


class Service:
    """``app`` is the ASGI application; ``close_streams`` is to be called when the server begins to stop."""

    def __init__(self, settings: Settings, access: Access, page: Path | None = None) -> None:
        serve, limits = settings.serve, settings.serve.limits
        self.newest = Newest(serve.stale_seconds)
        self.hub = Hub(limits.streams, limits.stream_queue)
        self.latest = LatestReading(settings, self.newest)
        self.desk = Desk(self.newest, limits, self.latest.current)
        self.condition = Condition(settings)
        self.method = method_of(settings.decisions)
        self.migrations = MigrationsEndpoint(settings, self.method.policy, self.newest)
        self.judge = TickJudge(settings.decisions, self.method)
        self.reading = ReadingThread(settings, self.newest, self._publish, self._trouble, self.judge.judge)
        self.token = access.token  #: what clients must send; may be replaced at any time
        self._settings = settings
        self.recents = Recents(settings)
        labels = Labels(settings.decisions)
        self._resources = (
            *picture_resources(labels),
            *host_resources(settings.decisions, labels),
            *recent_resources(self.recents),
            *decision_resources(settings, self.recents, labels),
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeper: TickSweeper | None = None
        self._bodies = {resource.name: partial(self._body, resource) for resource in self._resources if resource.topic}
        topics = Parameter("topic", f"what to be told of (default: {TICK})", (TICK, *self._bodies))
        self.description = encode(document(self._operations(topics), bool(access.token)))
        self.app: ASGIApp = application(
            self._routes(topics), page_routes(page), self.newest, lambda: self.token, self._start, self._stop
        )

    def close_streams(self) -> None:
        """Let all streams end in order."""
        self.hub.close()

    def _routes(self, topics: Parameter) -> list[BaseRoute]:
        query_bytes = self._settings.serve.limits.query_bytes
        stream = StreamEndpoint(self.hub, self.newest, topics, (TICK,), query_bytes)
        status = StatusEndpoint(self.condition, self.newest, self.hub, query_bytes)
        metrics = MetricsEndpoint(self.desk, self.condition, Options(), query_bytes)
        return [
            *(route(resource.path, endpoint(resource, self.desk), _GET, resource.name) for resource in self._resources),
            route("/v1/migrations", self.migrations, ("GET", "POST"), "migrations"),
            route("/v1/status", status, _GET, "status"),
            route("/v1/stream", stream, _GET, "stream"),
            route("/metrics", metrics, _GET, "metrics"),
            route("/openapi.json", _fixed(self.description, query_bytes), _GET, "openapi"),
        ]

    def _operations(self, topics: Parameter) -> Sequence[Operation]:
        texts = {form.media_type: _TEXT for form in (OPENMETRICS, CLASSIC)}
        stream = {"text/event-stream": _TEXT}
        return [
            *map(_described, self._resources),
            Operation("/v1/migrations", "migrations", "Migrations that schedulers have reported",
                      answer=MigrationsDocument, conditional=False),
            Operation("/v1/migrations", "report", "Report a migration that started, finished or failed", method="post",
                      body=MigrationReport, answer=MigrationDocument, conditional=False,
                      problems=("404", "408", "409", "413", "415")),
            Operation("/v1/status", "status", "The condition of the pipeline", answer=_STATUS),
            Operation("/v1/stream", "stream", "Every tick as server-sent events", parameters=(topics,),
                      answers=stream, headers=(_LAST_EVENT,), conditional=False),
            Operation("/metrics", "metrics", "For Prometheus", parameters=METRICS_PARAMETERS, answers=texts),
            Operation("/openapi.json", "openapi", "This description", answer={"type": "object"}),
        ]  # fmt: skip

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._sweeper = TickSweeper(_WHOLE_SWEEP_SECONDS, time.monotonic())
        sys.setswitchinterval(_SWITCH_SECONDS)
        self.reading.start()

    def _stop(self) -> None:
        self.hub.close()
        self.desk.close()
        self.latest.close()
        self.condition.close()
        self.migrations.close()
        self.reading.stop()
        self.recents.close()

    def _publish(self, cache: TickCache) -> None:
        """A new tick, in the reading thread: its prepared answers are made before anyone sees it."""
        for resource in self._resources:
            if resource.prepared:
                self._body(resource, cache)
        self.newest.publish(cache)
        self._in_loop(self.hub.tell, events_of(cache, self.hub.topics, self._bodies))
        self._tidy()

    def _trouble(self) -> None:
        piece = event("trouble", self.newest.problem().body(), None)
        self._in_loop(self.hub.tell_all, piece)
        self._tidy()

    def _tidy(self) -> None:
        """Set aside what the tick has made; what clients make is swept when the answers that wait for it are sent."""
        if self._sweeper is not None:
            self._sweeper.set_aside()
            self._in_loop(self._sweep_soon, self._sweeper)

    def _sweep_soon(self, sweeper: TickSweeper) -> None:
        if self._loop is not None:
            wait = _SWEEP_AFTER * self._settings.serve.interval_seconds
            self._loop.call_later(wait, lambda: sweeper.sweep(time.monotonic()))

    def _in_loop(self, function: Callable[[_Argument], None], argument: _Argument) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, argument)

    def _body(self, resource: Resource, cache: TickCache) -> bytes:
        """The answer of a resource without any parameter, kept under its path."""
        request = Request({}, {}, self._settings.serve.limits.answer_samples)
        return cache.make(resource.path, lambda one: resource.build(one, request), resource.content_type).body


def _described(resource: Resource) -> Operation:
    problems = ["422"] if resource.name == "snapshot" else []
    if any(parameter.name in ("host", "label", "entity_label", "set", "metric") for parameter in resource.parameters):
        problems.append("404")
    return Operation(
        resource.path,
        resource.name,
        resource.summary,
        parameters=resource.parameters,
        in_path=resource.in_path,
        answer=resource.answer,
        problems=problems,
    )


def _fixed(body: bytes, query_bytes: int) -> ASGIApp:
    """An endpoint whose answer never changes while the service runs."""
    answer = Answer(body, f'W/"{len(body)}-{hash(body) & 0xFFFFFFFF:x}"'.encode())

    async def handle(scope: Scope, _: Receive, send: Send) -> None:
        parameters.parse(scope["query_string"], (), query_bytes)
        await send_answer(answer, scope, send)

    return handle
