"""Service: assembly of all parts, and the front of every request.

One thread reads, threads of the executor build answers, the event loop sends; they exchange frozen values. A prepared
answer, or one requested before in this tick, is sent before any routing.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acquisition import log
from acquisition.config.decisions import Decisions
from acquisition.config.settings import Settings
from acquisition.errors import AdmissionError
from acquisition.supervision import Notifier
from filters.decisions.deciding import Decided
from filters.decisions.method import method_of
from filters.judging.judge import TickJudge
from filters.judging.labels import Labels
from filters.runtime.memory import TickSweeper
from filters.service.application import data_and_page, problem_response, routes
from filters.service.http.access import Access, Rates, check, check_writer
from filters.service.http.problem import Problem
from filters.service.interface.resource import Parts, Request, Resource
from filters.service.page import page_routes
from filters.service.resources import declared
from filters.service.ticks.executor import Executor
from filters.service.ticks.on_demand import Condition, LatestReading, Recents
from filters.service.ticks.reading_thread import ReadingThread
from filters.service.ticks.stream import Hub, event, events_of
from filters.service.ticks.tick_cache import JSON, NewestCache, TickCache, send_answer

#: Switching interval of threads: decoding a picture delays no answer for long.
_SWITCH_SECONDS = 0.0005
#: TLS and other libraries may leave a cycle per connection: interval of collecting them, in one pause.
_WHOLE_SWEEP_SECONDS = 3600.0
_SWEEP_AFTER = 0.25  #: of the interval
_Argument = TypeVar("_Argument")

LOG = log.category("serve.http")
#: Paths with data; the others are the page's files, which show none without the token.
_GUARDED = ("/v1/", "/metrics", "/openapi.json")


class Service:
    """``app`` is the ASGI application; call ``close_streams`` when the server begins to stop. ``refuse`` is
    called, in another thread, if the first shard that is read must not be contacted: nothing will ever be read."""

    def __init__(
        self,
        settings: Settings,
        access: Access,
        refuse: Callable[[AdmissionError], None] | None = None,
        page: Path | None = None,
    ) -> None:
        serve, limits = settings.serve, settings.serve.limits
        self.newest = NewestCache(serve.stale_seconds)
        self.hub = Hub(limits.streams, limits.stream_queue)
        self.latest = LatestReading(settings, self.newest)
        self.executor = Executor(self.newest, limits, self.latest.current)
        self.condition = Condition(settings)
        self.method = method_of(settings.decisions)
        self.judge = TickJudge(settings.decisions, self.method)
        self.notifier = Notifier()
        self.reading = ReadingThread(
            settings, self.newest, self._publish, self._renew, self._trouble, self.judge, self._beat, refuse
        )
        self.access = access  #: requirements for clients; a replacement applies from the next request on
        self._rates = Rates(limits.writes_per_second)
        self._settings = settings
        self.recents = Recents(settings)
        self._labels, shown = Labels(settings.decisions), bool(access.token)
        parts = Parts(
            settings, self.method, self._labels, self.newest, self.executor, self.condition, self.recents, self.hub,
            shown,
        )  # fmt: skip
        self.resources = declared(parts)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeper: TickSweeper | None = None
        self._bodies = {resource.name: partial(self._body, resource) for resource in self.resources if resource.topic}
        ways = routes(self.resources, self.executor, self._check_writer)
        data, pages = data_and_page(ways, page_routes(page), self._start, self._stop)
        self.app: ASGIApp = Front(data, pages, self.newest, lambda: self.access)

    def close_streams(self) -> None:
        """End all streams in order."""
        self.notifier.stopping("closing streams")
        self.hub.close()

    def label(self, settings: Decisions) -> None:
        """Apply the labels of these settings from the next tick on; other settings of decisions are unchanged."""
        decisions = dataclasses.replace(self._settings.decisions, hosts=settings.hosts, vms=settings.vms)
        self._labels.configure(decisions)
        self.judge.configure(decisions)

    def _check_writer(self, scope: Scope) -> None:
        check_writer(scope, self.access)
        client = scope.get("client")
        self._rates.take(client[0] if client else "", time.monotonic())

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._sweeper = TickSweeper(_WHOLE_SWEEP_SECONDS, time.monotonic())
        sys.setswitchinterval(_SWITCH_SECONDS)
        self.notifier.ready()
        self.reading.start()

    def _beat(self) -> None:
        """Sign of life of the reading thread, sent by the event loop, so that it ends if either hangs."""
        self._in_loop(self.notifier.turn, self._told)

    def _told(self) -> str:
        outage = self.newest.outage
        return f"the shards cannot be read: {outage.reason}" if outage else "answering"

    def _stop(self) -> None:
        self.hub.close()
        self.executor.close()
        self.latest.close()
        self.condition.close()
        for resource in self.resources:
            if resource.close is not None:
                resource.close()
        self.reading.stop()
        self.recents.close()

    def _publish(self, cache: TickCache) -> None:
        """Publish a new tick, in the reading thread: its prepared answers are made before it becomes visible."""
        for resource in self.resources:
            if resource.prepared:
                self._body(resource, cache)
        self.newest.publish(cache)
        self._in_loop(self.hub.tell, events_of(cache, self.hub.topics, self._bodies))
        self._tidy()

    def _renew(self, decided: Decided) -> None:
        """Publish other verdicts of the same tick, in the reading thread: changed answers are made before they
        become visible, and sent to listeners afterwards."""
        assert self.newest.last is not None
        early = [resource for resource in self.resources if resource.early]
        cache = self.newest.last.with_verdicts(decided, [resource.path for resource in early])
        bodies = {resource.name: self._body(resource, cache) for resource in early}
        self.newest.renew(cache)
        for name, body in bodies.items():
            if name in self._bodies:
                self._in_loop(partial(self.hub.tell_one, name), event(name, body, cache.number))
        self._tidy()

    def _trouble(self) -> None:
        piece = event("trouble", self.newest.problem().body(), None)
        self._in_loop(self.hub.tell_all, piece)
        self._tidy()

    def _tidy(self) -> None:
        """Set aside the objects of the tick; those of clients are swept after the answers waiting for it are sent."""
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
        """The answer of a resource without parameters, cached under its path."""
        request = Request({}, {}, self._settings.serve.limits.answer_samples)
        return cache.make(resource.path, partial(resource.answer_of, request), JSON).body


class Front:
    """Front of every request: access, the prepared answers, then the routes."""

    def __init__(self, routes: ASGIApp, page: ASGIApp, newest: NewestCache, where: Callable[[], Access]) -> None:
        self._routes = routes
        self._page = page
        self._newest = newest
        self._where = where

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or the lifespan."""
        if scope["type"] != "http":
            await self._routes(scope, receive, send)
            return
        if LOG.informs:
            send = _logging(scope, send)
        path = scope["path"]
        guarded = path.startswith(_GUARDED)
        try:
            where = self._where()
            if not where.token or guarded:
                check(scope, where)
            if not scope["query_string"] and scope["method"] == "GET":
                last = self._newest.last
                known = last.known(path) if last is not None else None
                if known is not None and self._newest.current() is last:
                    await send_answer(known, scope, send)
                    return
        except Problem as problem:
            await problem_response(problem)(scope, receive, send)
            return
        await (self._routes if guarded else self._page)(scope, receive, send)


def _logging(scope: Scope, send: Send) -> Send:
    """``send`` that logs a request after its answer has been sent: never its headers or the values of its parameters,
    which may contain secrets."""
    began = time.monotonic()
    sent, status = 0, 0

    async def logged(message: Message) -> None:
        nonlocal sent, status
        status = message.get("status", status)
        sent += len(message.get("body", b""))
        await send(message)
        if LOG.informs and message["type"] == "http.response.body" and not message.get("more_body"):
            client = scope["client"][0] if scope["client"] else "-"
            names = sorted({part.partition(b"=")[0] for part in scope["query_string"].split(b"&")})
            LOG.info(
                scope["method"], path=scope["path"], parameters=b",".join(names), status=status, bytes=sent,
                client=client, seconds=time.monotonic() - began,
            )  # fmt: skip

    return logged
