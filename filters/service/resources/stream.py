"""``/v1/stream``: one client of the stream, from its request to its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from starlette.types import Receive, Scope, Send

from filters.service.http.parameters import Parameter, Values
from filters.service.http.problem import Problem, bad_request
from filters.service.http.protocol import ABORT
from filters.service.interface.resource import Parts, Resource
from filters.service.ticks.stream import KEEP_ALIVE, KEEP_ALIVE_SECONDS, TICK, Hub, Listener, event
from filters.service.ticks.tick_cache import NewestCache

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]
_LAST_WORDS_SECONDS = 1.0
_LARGEST_NUMBER = 1 << 62
_LAST_EVENT = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "last event seen; later events are sent first, as far as they are kept",
    "schema": {"type": "integer", "minimum": 0, "maximum": 1 << 53},
}


def of(others: Sequence[Resource], parts: Parts) -> Resource:
    """Stream of the topics of other resources, and of the tick summary."""
    topics = Parameter(
        "topic", f"topics to receive (default: {TICK})", (TICK, *(each.name for each in others if each.topic))
    )
    return Resource(
        "/v1/stream",
        "stream",
        "Every tick as server-sent events",
        handle=StreamEndpoint(parts.hub, parts.newest),
        parameters=(topics,),
        media=("text/event-stream",),
        headers=(_LAST_EVENT,),
        conditional=False,
    )


class StreamEndpoint:
    """Sends events until the client leaves or does not read, or the service ends."""

    def __init__(self, hub: Hub, newest: NewestCache) -> None:
        self._hub = hub
        self._newest = newest

    async def __call__(self, values: Values, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client. Raises Problem (400, 503) before anything is sent."""
        topics = tuple(dict.fromkeys(values.get("topic", (TICK,))))
        last = last_event_id(scope)
        if self._hub.closed or self._hub.full:
            detail = "service is shutting down" if self._hub.closed else "too many streams"
            raise Problem(503, "no-stream", detail, {b"retry-after": b"5"})
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        listener = self._hub.join(topics, last)
        if self._newest.outage is not None:
            listener.offer(event("trouble", self._newest.problem().body(), None))
        try:
            await self._converse(listener, scope, receive, send)
        finally:
            self._hub.leave(listener)

    async def _converse(self, listener: Listener, scope: Scope, receive: Receive, send: Send) -> None:
        sender = asyncio.ensure_future(_send(listener, send))
        leaving = asyncio.ensure_future(_left(receive))
        ending = asyncio.ensure_future(listener.over.wait())
        try:
            await asyncio.wait((sender, leaving, ending), return_when=asyncio.FIRST_COMPLETED)
            if listener.ended == "closing" and not leaving.done():
                await asyncio.wait((sender,), timeout=_LAST_WORDS_SECONDS)
            if not sender.done() and not leaving.done():
                abort(scope)  # it does not read: an orderly end would never arrive
                await asyncio.wait((leaving,), timeout=_LAST_WORDS_SECONDS)
        finally:
            for task in (sender, leaving, ending):
                task.cancel()
            for task in (sender, leaving, ending):
                with contextlib.suppress(asyncio.CancelledError, OSError):
                    await task


async def _send(listener: Listener, send: Send) -> None:
    """Send queued events, or a comment after a long pause. Ends with the listener."""
    while True:
        if not listener.queue and not listener.ended:
            try:
                await asyncio.wait_for(listener.wake.wait(), KEEP_ALIVE_SECONDS)
            except TimeoutError:
                listener.queue.append(KEEP_ALIVE)
        listener.wake.clear()
        while listener.queue:
            await send({"type": "http.response.body", "body": listener.queue.popleft(), "more_body": True})
        if listener.ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def abort(scope: Scope) -> None:
    """End the connection of a request at once, if the server supports that."""
    extension = scope.get("extensions", {}).get(ABORT)
    if extension is not None:
        extension["abort"]()


def last_event_id(scope: Scope) -> int | None:
    """The tick last seen by a client; None if not given."""
    given = [value for name, value in scope["headers"] if name == b"last-event-id"]
    if not given or not given[0]:
        return None
    if len(given) > 1 or not given[0].isdigit() or len(given[0]) > 18 or int(given[0]) > _LARGEST_NUMBER:
        raise bad_request("Last-Event-ID must be the number of an event of this stream", "Last-Event-ID")
    return int(given[0])
