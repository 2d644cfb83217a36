"""Bare HTTP server with constant replies: the query service's reference.

    python -m experiments.serve_load.bare     (orders and answers as JSON lines on stdin and stdout)

Order ``{body, core}``, answered with ``{port}``; it ends with its standard input.
"""

from __future__ import annotations

import asyncio
import os
from typing import cast

import uvloop

from experiments.processes.control import Orders, say


class Answering(asyncio.Protocol):
    """One connection; requests have no body and are answered as soon as they end."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's have no such class

    def data_received(self, data: bytes) -> None:
        """Some requests have arrived."""
        self._transport.write(self._answer * data.count(b"\r\n\r\n"))


async def serve(answer: bytes, orders: Orders) -> None:
    """Answer requests until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answering(answer), "127.0.0.1", 0)
    say({"port": server.sockets[0].getsockname()[1]})
    ended = asyncio.Event()
    loop.add_reader(orders.fileno(), ended.set)
    await ended.wait()


def main() -> None:
    """Serve the order; see the module."""
    orders = Orders()
    order = orders.wait()
    os.sched_setaffinity(0, {order["core"]})
    body = order["body"].encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    uvloop.run(serve(head.encode() + body, orders))


if __name__ == "__main__":
    main()
