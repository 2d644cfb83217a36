"""``/v1/status``: the condition of the pipeline."""

from __future__ import annotations

import time

import msgspec
from starlette.types import Receive, Scope, Send

from acquisition.errors import EXIT_OK, EXIT_TEMPORARY, EXIT_UNBALANCED, ShardpulseError
from acquisition.snapshot.books import Account
from acquisition.status.command import exit_code
from acquisition.status.document import document
from acquisition.status.health import DOWN, Health
from filters.documents.encoding import encode
from filters.service.answer import Answer, send_answer
from filters.service.condition import Look
from filters.service.parameters import Values
from filters.service.resource import Parts, Resource

_VERDICTS = {EXIT_OK: "ok", EXIT_UNBALANCED: "unbalanced", EXIT_TEMPORARY: "empty"}
_MOST_ACCOUNTS = 100
_SCHEMA = {
    "type": "object",
    "required": ["verdict", "now", "books", "sets", "hosts", "shards", "workers", "findings", "service"],
    "properties": {"verdict": {"enum": ["ok", "unbalanced", "down", "stale", "empty"]}},
}


class ServiceStatus(msgspec.Struct, frozen=True):
    """The query service itself: streams, and those that were cut off because their clients did not read."""

    tick: int | None
    age_seconds: float | None
    streams: int
    streams_cut_off: int
    trouble: str


def declare(parts: Parts) -> tuple[Resource, ...]:
    """The document of ``shardpulse status --json`` and the service's own figures beside it."""
    status = Status(parts)
    return (
        Resource(
            "/v1/status",
            "status",
            "The condition of the pipeline, and the service itself",
            _SCHEMA,
            handle=status.answer,
        ),
    )


class Status:
    """What is answered while the condition of the pipeline is that of one look."""

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
        code = exit_code(found)
        kinds = {finding.kind for finding in found.findings}
        verdict = _VERDICTS.get(code, "down" if DOWN in kinds else "stale")
        last, outage = self._newest.last, self._newest.outage
        own = ServiceStatus(
            None if last is None else last.number,
            None if last is None else round(last.age_seconds, 3),
            len(self._hub),
            self._hub.slow,
            "" if outage is None else outage.reason,
        )
        whole = document(found, self._condition.set_names, _in_trouble(found), verdict, code)
        return encode({**whole, "service": own})


def _in_trouble(found: Health) -> list[Account]:
    accounts = found.books.accounts if found.books is not None else []
    return [row for row in accounts if row.faults or not row.known or row.lost or row.gaps][:_MOST_ACCOUNTS]
