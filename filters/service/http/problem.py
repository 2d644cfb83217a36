"""Problem documents (RFC 9457): the common form of all errors of the service.

``type`` is a relative reference that names the kind of problem and never changes; ``detail`` gives the remedy
for this one. Members beyond the five of the RFC are in ``extra``.
"""

from __future__ import annotations

import http
from collections.abc import Mapping
from typing import Any

import msgspec

CONTENT_TYPE = b"application/problem+json"
_TYPE_PREFIX = "/problems/"


class Problem(Exception):
    """One problem; raised where it is found, answered by the application."""

    def __init__(
        self, status: int, kind: str, detail: str, headers: Mapping[bytes, bytes] | None = None, **extra: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = extra

    def document(self) -> dict[str, Any]:
        """The members of the problem object."""
        return {
            "type": _TYPE_PREFIX + self.kind,
            "title": http.HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": printable(self.detail),
            **self.extra,
        }

    def body(self) -> bytes:
        """The document as JSON."""
        return msgspec.json.encode(self.document())


class ProblemDocument(msgspec.Struct, frozen=True):
    """A problem (RFC 9457), for the interface description."""

    type: str
    title: str
    status: int
    detail: str
    age_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    parameter: str | msgspec.UnsetType = msgspec.UNSET


def bad_request(detail: str, parameter: str = "") -> Problem:
    """The request itself is wrong; ``parameter`` names the wrong part."""
    return _of_parameter(400, "bad-request", detail, parameter)


def not_found(detail: str, parameter: str = "") -> Problem:
    """An unknown name, or no such resource."""
    return _of_parameter(404, "not-found", detail, parameter)


def _of_parameter(status: int, kind: str, detail: str, parameter: str) -> Problem:
    return Problem(status, kind, detail, None, parameter=parameter) if parameter else Problem(status, kind, detail)


def unavailable(detail: str, age_seconds: float | None) -> Problem:
    """No picture is available for answers; ``age_seconds`` is that of the last one."""
    age = None if age_seconds is None else round(age_seconds, 3)
    return Problem(503, "no-picture", detail, {b"retry-after": b"1"}, age_seconds=age)


def printable(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot encode, cut to a readable length."""
    clean = text.encode("utf-8", "replace").decode()
    return clean if len(clean) <= 1000 else f"{clean[:997]}..."
