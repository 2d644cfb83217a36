"""``/openapi.json``: the interface description, which includes itself."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import Receive, Scope, Send

from filters.documents.encoding import encode
from filters.service.http.answer import Answer, send_answer
from filters.service.http.parameters import Values
from filters.service.interface import openapi
from filters.service.interface.resource import Parts, Resource


def of(others: Sequence[Resource], parts: Parts) -> Resource:
    """The description of other resources."""
    own = Resource("/openapi.json", "openapi", "This description (OpenAPI 3.1)", {"type": "object"})
    body = encode(openapi.document([*others, own], parts.token))
    answer = Answer(body, f'W/"{len(body)}-{hash(body) & 0xFFFFFFFF:x}"'.encode())

    async def handle(_: Values, scope: Scope, __: Receive, send: Send) -> None:
        await send_answer(answer, scope, send)

    return own._replace(handle=handle)
