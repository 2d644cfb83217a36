"""Server of the service: sockets, signals and graceful shutdown."""

from __future__ import annotations

import logging
import resource
import signal
import socket
import ssl
import threading
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from acquisition.config.serve import ServeLimits
from acquisition.errors import CannotCreateError
from filters.service.http.access import Access, tls_context
from filters.service.http.protocol import Bounds, bounded

_GRACE_SECONDS = 5
_BACKLOG = 1024
_OWN_DESCRIPTORS = 200  #: connections to shards, files, the event loop


class Server(uvicorn.Server):
    """uvicorn's server with a callback before the end: ``closing`` is called when it begins to stop.

    ``context``: TLS of connections, if any.
    """

    def __init__(
        self, config: uvicorn.Config, closing: Callable[[], None], context: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(config)
        self._closing = closing
        self.context = context

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: streams first, as uvicorn would wait for them."""
        self._closing()
        await super().shutdown(sockets)


def server(app: ASGIApp, access: Access, limits: ServeLimits, closing: Callable[[], None]) -> Server:
    """A server with the configured limits."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    context = tls_context(access) if access.certificate else None
    config = uvicorn.Config(
        app,
        http=bounded(Bounds(limits.connections, limits.head_bytes, limits.idle_seconds)),
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=True,
        backlog=_BACKLOG,
        timeout_keep_alive=max(1, int(limits.idle_seconds)),
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=access.certificate or None,
        ssl_keyfile=access.key or None,
        ssl_context_factory=None if context is None else lambda *_: context,
    )
    return Server(config, closing, context)


def listen(access: Access) -> socket.socket:
    """The listening socket. Raises CannotCreateError if the address is not available."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            access.host, access.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        where = f"{access.host}:{access.port}"
        raise CannotCreateError(f"cannot listen on {where}: {error.strerror or error}; see [serve] bind") from error
    return listener


def allow_descriptors(connections: int) -> None:
    """Raise the soft limit of open files so that the limit of connections is reached first.

    Raises CannotCreateError if the hard limit is too low.
    """
    wanted = connections + _OWN_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise CannotCreateError(
            f"[serve.limits] connections = {connections} requires {wanted} open files, but the limit is "
            f"{hard}: lower it, or raise the limit (ulimit -Hn, LimitNOFILE)"
        )
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def obey_signals(running: Server, reload: Callable[[], None]) -> None:
    """Stop the server in order on SIGTERM and SIGINT, also before it runs; call ``reload`` on SIGHUP."""

    def end(*_: object) -> None:  # uvicorn has its own handlers while it runs, and raises repeated signals
        running.should_exit = True

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        signal.signal(signal.SIGHUP, lambda *_: reload())
