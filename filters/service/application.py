"""Routes of the ASGI application to its resources.

Requests are routed by starlette and answered from the newest tick. An answer is built in a thread, once for any
number of requests. Errors of every kind are problem documents.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from filters.service.http import parameters
from filters.service.http.parameters import LATEST, READING
from filters.service.http.problem import CONTENT_TYPE, Problem
from filters.service.interface.resource import Request, Resource
from filters.service.ticks.executor import Executor
from filters.service.ticks.tick_cache import JSON, Answer, conditions, matches, send_answer


def endpoint(resource: Resource, executor: Executor, check_writer: Callable[[Scope], None]) -> ASGIApp:
    """The ASGI endpoint of a resource: checks parameters, then the resource answers itself or an answer is built.
    ``check_writer`` raises Problem for a request that is not permitted to write."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if resource.method != "GET":
            check_writer(scope)
        values = parameters.parse(scope["query_string"], resource.parameters, executor.limits.query_bytes)
        if resource.handle is not None:
            await resource.handle(values, scope, receive, send)
            return
        cache = await executor.latest() if values.get(READING.name) == (LATEST,) else executor.newest.current()
        none_match = conditions(scope)[0]
        if none_match is not None and b"*" not in none_match and matches(none_match, cache.etag):
            await send_answer(Answer(b"", cache.etag), scope, send)  # already up to date: 304
            return
        key = scope["path"] + (f"?{parameters.canonical(values)}" if values else "")
        build = partial(resource.answer_of, Request(dict(scope["path_params"]), values, executor.limits.answer_samples))
        await send_answer(await executor.answer(key, build, JSON, cache), scope, send)

    return handle


def routes(resources: Sequence[Resource], executor: Executor, check_writer: Callable[[Scope], None]) -> list[BaseRoute]:
    """One route per path, for all of its methods. ``check_writer``: as of ``endpoint``."""
    by_path: dict[str, dict[str, ASGIApp]] = {}
    for resource in resources:
        by_path.setdefault(resource.path, {})[resource.method] = endpoint(resource, executor, check_writer)
    return [Route(path, _Methods(methods), methods=list(methods)) for path, methods in by_path.items()]


class _Methods:
    """The endpoints of one path by method; HEAD is GET without a body, which the server leaves out. (starlette takes
    objects as ASGI applications and functions as request handlers.)"""

    def __init__(self, by_method: Mapping[str, ASGIApp]) -> None:
        self._by_method = by_method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        method = scope["method"]
        await self._by_method["GET" if method == "HEAD" else method](scope, receive, send)


def data_and_page(
    routes: list[BaseRoute], page: list[BaseRoute], start: Callable[[], None], stop: Callable[[], None]
) -> tuple[Starlette, Starlette]:
    """Applications of the ``routes`` to data, and of the ``page``. ``start`` and ``stop`` are called in the event loop
    when the first one starts and ends."""

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
    return data, shown


def problem_response(problem: Problem) -> Response:
    """The response for a problem."""
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
        return problem_response(Problem(404, "not-found", "no such resource; /openapi.json describes all resources"))
    return problem_response(Problem(error.status_code, "refused", str(error.detail), headers))


def _on_fault(_: HttpRequest, error: Exception) -> Response:
    detail = f"internal error (bug): {type(error).__name__}; see the log of shardpulse serve"
    return problem_response(Problem(500, "internal", detail))
