"""HTTP/1.1 protocol with limits on slow and large clients, over uvicorn's.

A connection that has sent no complete request for long, or reads nothing for long, is closed; if there are too
many, the longest idle one makes room for the new one, so that thousands of idle ones block no one. A request
line with headers has a maximum size. A stream can be aborted: closing in order would wait for a client that does not
read.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from filters.service.http.problem import CONTENT_TYPE, Problem

#: In ``scope["extensions"]``: a function that ends the connection at once.
ABORT = "shardpulse.abort"


class Bounds:
    """Limits and idle connections of one server, the longest idle first."""

    def __init__(self, connections: int, head_bytes: int, idle_seconds: float) -> None:
        self.connections = connections
        self.head_bytes = head_bytes
        self.idle_seconds = idle_seconds
        self.idle: dict[BoundedProtocol, None] = {}
        self.evicted = 0

    def make_room(self, present: int) -> bool:
        """Close idle connections until one more fits; False if all of them are busy."""
        while present > self.connections:
            oldest = next(iter(self.idle), None)
            if oldest is None:
                return False
            oldest.drop()
            self.evicted += 1
            present -= 1
        return True


class BoundedProtocol(HttpToolsProtocol):
    """One connection. ``bounds`` is set on a subclass per server (``bounded``)."""

    bounds: Bounds

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._head = 0  #: bytes of an incomplete request line with headers; -1: complete
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._problem: Problem | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Handle a new connection: idle until its first complete request, or one too many."""
        super().connection_made(transport)
        if not self.bounds.make_room(len(self.connections)):
            self._refuse(Problem(503, "too-many-connections", "too many connections: try again"))
            return
        self._idle()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the loss of the connection."""
        self._busy()
        self._moving()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle bytes; too many of them before a complete request end the connection."""
        if self._head >= 0:
            self._head += len(data)
        super().data_received(data)
        if self._head > self.bounds.head_bytes and not self.transport.is_closing():
            self._refuse(self._too_long())

    def on_message_begin(self) -> None:
        """Handle the beginning of a request."""
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: {"abort": self.transport.abort}}

    def on_headers_complete(self) -> None:
        """Handle complete headers of a request. Raises Problem, which the parser turns into ``send_400_response``."""
        length = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if length > self.bounds.head_bytes:
            self._problem = self._too_long()
            raise self._problem
        self._head = -1
        self._busy()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Handle the end of a response; the next request may follow."""
        super().on_response_complete()
        if not self.pipeline and not self.transport.is_closing():
            self._head = 0
            self._idle()

    def send_400_response(self, msg: str) -> None:
        """Answer data that is not HTTP."""
        self._refuse(self._problem or Problem(400, "bad-request", msg))

    def pause_writing(self) -> None:
        """Start the time limit for a client that does not read."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.bounds.idle_seconds, self.drop)

    def resume_writing(self) -> None:
        """Handle a client that reads again."""
        super().resume_writing()
        self._moving()

    def drop(self) -> None:
        """Close a connection that is idle or makes no progress, at once."""
        self._busy()
        self._moving()
        self.connections.discard(self)
        self.transport.abort()

    def _idle(self) -> None:
        self.bounds.idle.pop(self, None)
        self.bounds.idle[self] = None
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self.bounds.idle_seconds, self.drop)

    def _busy(self) -> None:
        self.bounds.idle.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _moving(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _too_long(self) -> Problem:
        return Problem(
            431, "head-too-long", f"request headers too long: at most {self.bounds.head_bytes} bytes allowed"
        )

    def _refuse(self, problem: Problem) -> None:
        body = problem.body()
        head = b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        title = problem.document()["title"].encode()
        self.transport.write(head % (problem.status, title, CONTENT_TYPE, len(body)) + body)
        self.transport.close()


def bounded(bounds: Bounds) -> type[BoundedProtocol]:
    """Protocol class of one server."""
    return type("Protocol", (BoundedProtocol,), {"bounds": bounds})
