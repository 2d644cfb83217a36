"""A small server that speaks the protocol of ``shardpulse serve`` for the page: its real files, its real headers and
its real encodings, of made-up hosts. Everything is encoded beforehand, so that the browser has the core to itself."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from filters.decisions.picture import CPU, MEMORY, NETWORK, Host, Picture
from filters.decisions.verdict import Outcome, Verdict
from filters.documents.encoding import encode
from filters.documents.heat import heat_document, roster_document
from filters.documents.loads import Load
from filters.service.page import page_routes
from filters.service.stream import RETRY, event

_VARIANTS = 10  #: different ticks, which take turns: no tile has the same colour in two that follow each other
_RULE = {"name": "emulated", "title": "emulated", "source": "", "parameters": {}}


class Ticks:
    """The events of ``_VARIANTS`` ticks of ``hosts`` hosts, and the roster."""

    def __init__(self, hosts: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._hosts = hosts
        self.roster = encode(roster_document(0, self._picture(0)))
        self.events = [self._events(variant) for variant in range(_VARIANTS)]

    def _picture(self, variant: int) -> Picture:
        hosts = (Host(f"{index:016x}", f"host-{index:05}", age_seconds=0.5) for index in range(self._hosts))
        return Picture(variant, 0.0, tuple(hosts))

    def _load(self, index: int, variant: int) -> Load:
        if index % 100 == variant:  # missing: one in a hundred, another at every tick
            return {}
        base = (index * 37 + variant * 31) % 90 / 100  # every tile moves by 30 steps of the scale
        return {metric: base + self._random.uniform(0.0, 0.09) for metric in (CPU, MEMORY, NETWORK)}

    def _events(self, variant: int) -> bytes:
        picture = self._picture(variant)
        known = {host.id: self._load(index, variant) for index, host in enumerate(picture.hosts)}
        verdicts = {
            host: Verdict(Outcome.HOT if load.get(CPU, 0.0) > 0.95 else Outcome.NOT_HOT, "above the limit")
            for host, load in known.items()
        }
        hot = [host for host in picture.hosts if verdicts[host.id].outcome == Outcome.HOT]
        documents: dict[str, Any] = {
            "tick": {"tick": variant, "hosts": self._hosts, "current": self._hosts, "late": 0, "unknown": 0,
                     "down": 0, "blind": "", "hot": len(hot), "moves": 0},
            "heat": heat_document(variant, picture, verdicts, known),
            "hot": {"rule": _RULE, "abstained": [],
                    "hot": [{"host": host.name, "id": host.id, "reason": "above the limit", "figures": []}
                            for host in hot]},
            "moves": {"rule": _RULE, "blind": "", "moves": [], "refused": []},
        }  # fmt: skip
        return b"".join(event(topic, encode(document), variant) for topic, document in documents.items())


def _application(ticks: Ticks, rate: float) -> Starlette:
    async def stream(_: Request) -> StreamingResponse:
        async def told() -> AsyncIterator[bytes]:
            yield RETRY
            loop = asyncio.get_running_loop()
            due, number = loop.time(), 0
            while True:
                yield ticks.events[number % len(ticks.events)]
                number, due = number + 1, due + 1.0 / rate
                await asyncio.sleep(max(0.0, due - loop.time()))

        return StreamingResponse(told(), media_type="text/event-stream")

    async def roster(_: Request) -> Response:
        return Response(ticks.roster, media_type="application/json")

    async def status(_: Request) -> Response:
        return Response(b'{"detail":"this server has no pipeline"}', 503, media_type="application/problem+json")

    data = [Route("/v1/stream", stream), Route("/v1/roster", roster), Route("/v1/status", status)]
    return Starlette(routes=[*data, *page_routes()])


@contextlib.contextmanager
def emulated(ticks: Ticks, rate: float) -> Iterator[str]:
    """The address of the server, which runs in a thread until the end of the block; ``rate`` ticks per second."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(_application(ticks, rate), log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    sockets: Sequence[socket.socket] = [listener]
    thread = threading.Thread(target=server.run, args=(sockets,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(5.0)
        listener.close()
