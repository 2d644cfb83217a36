"""``/v1/status``: the condition of the pipeline."""

from __future__ import annotations

import time

import msgspec
from starlette.types import Receive, Scope, Send

from acquisition.errors import ShardpulseError
from acquisition.status.document import StatusDocument, document, in_trouble, verdict_of
from acquisition.status.health import Health
from filters.documents.encoding import encode
from filters.service.http.parameters import Values
from filters.service.interface.resource import Parts, Resource
from filters.service.ticks.on_demand import Look
from filters.service.ticks.tick_cache import Answer, send_answer

_MOST_ACCOUNTS = 100


class ServiceStatus(msgspec.Struct, frozen=True):
    """The query service itself: streams, and those that were cut off because their clients did not read."""

    tick: int | None
    age_seconds: float | None
    streams: int
    streams_cut_off: int
    trouble: str


class ServiceStatusDocument(StatusDocument, frozen=True):
    """One look at the pipeline, and at the service that answers."""

    service: ServiceStatus


def declare(parts: Parts) -> tuple[Resource, ...]:
    """The document of ``shardpulse status --json`` and the service's own figures."""
    status = Status(parts)
    return (
        Resource(
            "/v1/status",
            "status",
            "Health of the pipeline and of this service",
            ServiceStatusDocument,
            handle=status.answer,
        ),
    )


class Status:
    """Status answer from one look at the pipeline."""

    def __init__(self, parts: Parts) -> None:
        self._condition = parts.condition
        self._newest = parts.newest
        self._hub = parts.hub
        self._made: tuple[Look, Answer] | None = None

    async def answer(self, _: Values, scope: Scope, __: Receive, send: Send) -> None:
        """One request. Raises Problem (503)."""
        try:
            look = await self._condition.look()
        except ShardpulseError as error:
            raise self._newest.trouble(str(error)) from error
        if self._made is None or self._made[0] is not look:
            etag = f'W/"status-{time.time():.3f}"'.encode()
            self._made = look, Answer(self._body(look.health), etag)
        await send_answer(self._made[1], scope, send)

    def _body(self, found: Health) -> bytes:
        last, outage = self._newest.last, self._newest.outage
        own = ServiceStatus(
            None if last is None else last.number,
            None if last is None else round(last.age_seconds, 3),
            len(self._hub),
            self._hub.slow,
            "" if outage is None else outage.reason,
        )
        told = document(found, self._condition.set_names, in_trouble(found, _MOST_ACCOUNTS), verdict_of(found))
        return encode(ServiceStatusDocument(**msgspec.structs.asdict(told), service=own))
