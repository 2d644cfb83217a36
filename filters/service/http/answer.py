"""Answers that are encoded once and sent many times: body, entity tag, compressed variant.

The entity tag is weak (RFC 9110, section 8.8.1): the same tick means the same whatever its encoding. Both
variants of the whole ASGI message are made once, so that an answer costs two calls of ``send``.
"""

from __future__ import annotations

import zlib
from typing import Any

from starlette.types import Message, Scope, Send

JSON = b"application/json"
_SMALLEST = 1024  #: bytes below which compression saves no packet
_LEVEL = 1  #: zlib: 12 kB of verdicts become 1.2 kB in less than 0.1 ms; the highest levels gain little
_PIECE = 256 << 10  #: bytes that are handed to a connection at once
_EMPTY: Message = {"type": "http.response.body", "body": b""}


class Answer:
    """One representation of one resource at one tick. Made once, immutable but for what it caches."""

    __slots__ = ("_plain", "_squeezed", "body", "content_type", "etag", "not_modified")

    def __init__(self, body: bytes, etag: bytes, content_type: bytes = JSON) -> None:
        self.body = body
        self.etag = etag
        self.content_type = content_type
        self.not_modified = _start(304, [(b"etag", etag), *_COMMON])
        self._plain = (self._head(len(body)), {"type": "http.response.body", "body": body})
        self._squeezed: tuple[Message, Message] | None = None

    def compress(self) -> None:
        """Make the compressed variant; what is small stays as it is."""
        if len(self.body) < _SMALLEST:
            self._squeezed = self._plain
            return
        packer = zlib.compressobj(_LEVEL, wbits=31)
        data = packer.compress(self.body) + packer.flush()
        self._squeezed = (self._head(len(data), gzip=True), {"type": "http.response.body", "body": data})

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        squeezed = self._squeezed
        more = 0 if squeezed is None or squeezed is self._plain else len(squeezed[1]["body"])
        return len(self.body) + more

    @property
    def slow_to_compress(self) -> bool:
        """Whether the compressed variant is still to be made and takes more than a millisecond or so."""
        return self._squeezed is None and len(self.body) > 65536

    def messages(self, gzip: bool) -> tuple[Message, Message]:
        """Head and body to send."""
        if not gzip:
            return self._plain
        if self._squeezed is None:
            self.compress()
        assert self._squeezed is not None
        return self._squeezed

    def _head(self, length: int, gzip: bool = False) -> Message:
        headers = [
            (b"content-type", self.content_type),
            (b"content-length", b"%d" % length),
            (b"etag", self.etag),
            *_COMMON,
        ]
        if gzip:
            headers.append((b"content-encoding", b"gzip"))
        return _start(200, headers)


_COMMON = [
    (b"cache-control", b"no-cache"),
    (b"vary", b"accept, accept-encoding"),
    (b"x-content-type-options", b"nosniff"),
]


async def send_answer(answer: Answer, scope: Scope, send: Send) -> None:
    """Send what the request's headers ask for: nothing new (304), compressed or plain."""
    none_match, encoding = conditions(scope)
    if none_match is not None and matches(none_match, answer.etag):
        await send(answer.not_modified)
        await send(_EMPTY)
        return
    head, body = answer.messages(accepts_gzip(encoding))
    await send(head)
    if len(body["body"]) <= _PIECE or scope["method"] == "HEAD":
        await send(body)
        return
    whole = memoryview(body["body"])
    for start in range(0, len(whole), _PIECE):  # each waits until the client has taken those before
        end = start + _PIECE
        await send({"type": "http.response.body", "body": whole[start:end], "more_body": end < len(whole)})


def conditions(scope: Scope) -> tuple[bytes | None, bytes]:
    """``If-None-Match`` (None: absent) and ``Accept-Encoding`` (empty: absent) of a request; fields that are
    sent twice are one list (RFC 9110, section 5.3)."""
    none_match: bytes | None = None
    encoding = b""
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            none_match = value if none_match is None else none_match + b"," + value
        elif name == b"accept-encoding":
            encoding = encoding + b"," + value if encoding else value
    return none_match, encoding


def matches(none_match: bytes, etag: bytes) -> bool:
    """Whether an ``If-None-Match`` names the tag, by weak comparison (RFC 9110, section 13.1.2)."""
    if none_match == etag:
        return True
    tags = [tag.strip() for tag in none_match.split(b",")]
    return b"*" in tags or etag.removeprefix(b"W/") in [tag.removeprefix(b"W/") for tag in tags]


def accepts_gzip(encoding: bytes) -> bool:
    """Whether an ``Accept-Encoding`` allows gzip with a weight above 0 (RFC 9110, section 12.5.3)."""
    if b"gzip" not in encoding and b"*" not in encoding:
        return False
    weights: dict[bytes, bool] = {}
    for part in encoding.lower().split(b","):
        name, _, parameters = part.partition(b";")
        weights[name.strip()] = parameters.strip().replace(b" ", b"") not in _NEVER
    return weights.get(b"gzip", weights.get(b"*", False))


_NEVER = (b"q=0", b"q=0.", b"q=0.0", b"q=0.00", b"q=0.000")


def _start(status: int, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": headers}
