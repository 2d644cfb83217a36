"""The ASGI application: requests in, answers of the newest tick out.

What was asked for before in this tick goes out as prepared bytes before any routing. Everything else is
routed by starlette and built in a thread, once however many ask. Errors of every kind are problem documents.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from acquisition.config.serve import ServeLimits
from filters.service import access, parameters
from filters.service.answer import Answer, conditions, matches, send_answer
from filters.service.parameters import LATEST, READING
from filters.service.problem import CONTENT_TYPE, Problem, unavailable
from filters.service.resource import Request, Resource
from filters.service.tick_cache import Newest, TickCache

#: Paths that show data; the others are the page's files, which show none until they are given the token.
_GUARDED = ("/v1/", "/metrics", "/openapi.json")
_BUILDERS = 2
_MOST_WAITING = 64  #: answers that are being built or wait for it


Build = Callable[[TickCache], bytes]


class Desk:
    """Makes the answers that are not there yet: in threads, each once, never too many at a time."""

    def __init__(self, newest: Newest, limits: ServeLimits, latest: Callable[[], Awaitable[TickCache]]) -> None:
        self.newest = newest
        self.latest = latest
        self.limits = limits
        self._threads = ThreadPoolExecutor(_BUILDERS, "answer")
        self._under_way: dict[tuple[bytes, str], asyncio.Future[Answer]] = {}

    def close(self) -> None:
        """Let no more answers be made."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def answer(
        self, key: str, build: Callable[[TickCache], bytes], content_type: bytes, cache: TickCache
    ) -> Answer:
        """The answer of a tick for a key. Raises Problem as ``build`` does, 503 when too many wait."""
        known = cache.known(key)
        if known is not None:
            return known
        name = (cache.etag, key)
        future = self._under_way.get(name)
        if future is None:
            if len(self._under_way) >= _MOST_WAITING:
                raise Problem(503, "busy", "too many answers are being made: try again", {b"retry-after": b"1"})
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(self._threads, cache.make, key, build, content_type)
            self._under_way[name] = future
            future.add_done_callback(partial(self._done, name))
        return await asyncio.shield(future)

    def _done(self, name: tuple[bytes, str], future: asyncio.Future[Answer]) -> None:
        self._under_way.pop(name, None)
        if not future.cancelled():
            future.exception()  # whoever asked may have left: it is then told to nobody


def endpoint(resource: Resource, desk: Desk) -> ASGIApp:
    """The ASGI endpoint of a resource."""

    async def handle(scope: Scope, _: Receive, send: Send) -> None:
        values = parameters.parse(scope["query_string"], resource.parameters, desk.limits.query_bytes)
        now = values.get(READING.name) == (LATEST,)
        cache = await desk.latest() if now else desk.newest.current()
        path = dict(scope["path_params"])
        none_match = conditions(scope)[0]
        if none_match is not None and b"*" not in none_match and matches(none_match, cache.etag):
            await send_answer(Answer(b"", cache.etag, resource.content_type), scope, send)  # it has it already: 304
            return
        key = scope["path"] + (f"?{parameters.canonical(values)}" if values else "")
        build = partial(_build, resource, Request(path, values, desk.limits.answer_samples))
        await send_answer(await desk.answer(key, build, resource.content_type, cache), scope, send)

    return handle


def _build(resource: Resource, request: Request, cache: TickCache) -> bytes:
    return resource.build(cache, request)


def route(path: str, handle: ASGIApp, methods: Iterable[str], name: str) -> Route:
    """A route to a bare ASGI endpoint; HEAD is GET without a body, which the server leaves out."""

    class Endpoint:
        """starlette takes objects as ASGI applications and functions as request handlers."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await handle(scope, receive, send)

    return Route(path, Endpoint(), methods=list(methods), name=name)


class Front:
    """What every request passes: access, the prepared answers, then the routes."""

    def __init__(self, routes: ASGIApp, page: ASGIApp, newest: Newest, token: Callable[[], bytes]) -> None:
        self._routes = routes
        self._page = page
        self._newest = newest
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the lifespan."""
        if scope["type"] != "http":
            await self._routes(scope, receive, send)
            return
        path = scope["path"]
        guarded = path.startswith(_GUARDED)
        try:
            token = self._token()
            if not token or guarded:
                access.check(scope, token)
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


def application(
    routes: list[BaseRoute],
    page: list[BaseRoute],
    newest: Newest,
    token: Callable[[], bytes],
    start: Callable[[], None],
    stop: Callable[[], None],
) -> ASGIApp:
    """The whole application: ``routes`` to data, and to the ``page`` for every other path. ``token`` is what
    clients must send now, if anything. ``start`` and ``stop`` are called in the event loop when it begins and ends."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        start()
        try:
            yield
        finally:
            stop()

    handlers = {Problem: _on_problem, HTTPException: _on_http_error, Exception: _on_fault}
    data = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    shown = Starlette(routes=page, exception_handlers=handlers)
    data.router.redirect_slashes = False
    return Front(data, shown, newest, token)


def problem_response(problem: Problem) -> Response:
    """The response that tells of a problem."""
    headers = {name.decode(): value.decode() for name, value in problem.headers.items()}
    headers |= {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(problem.body(), problem.status, headers, CONTENT_TYPE.decode())


def _on_problem(_: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_response(error)


def _on_http_error(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = {name.encode(): value.encode() for name, value in (error.headers or {}).items()}
    if error.status_code == 405:
        allowed = headers.get(b"allow", headers.get(b"Allow", b"")).decode()
        return problem_response(Problem(405, "wrong-method", f"{request.url.path} allows {allowed}", headers))
    if error.status_code == 404:
        return problem_response(Problem(404, "not-found", "no such resource; /openapi.json describes those that are"))
    return problem_response(Problem(error.status_code, "refused", str(error.detail), headers))


def _on_fault(_: HttpRequest, error: Exception) -> Response:
    detail = f"{type(error).__name__}: a fault of shardpulse; its log says more"
    return problem_response(Problem(500, "internal", detail))


def no_picture(reason: str, newest: Newest) -> Problem:
    """A problem of a part that reads the shards by itself."""
    last = newest.last
    return unavailable(reason, last.age_seconds if last is not None else None)
