"""The interface description (OpenAPI 3.1), made from the same parameters and types that the service works with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from acquisition import __version__
from filters.service.parameters import Parameter
from filters.service.problem import ProblemDocument

_TEMPLATE = "#/components/schemas/{name}"
_DESCRIPTION = """\
Every host, process and VM of a data center, about one second old, checked and smoothed. A value that is
not there is null, never 0; validity and age stand beside every value. The tag of an answer (ETag) is that of
its tick: If-None-Match costs nothing until the next one. Errors are problem documents (RFC 9457)."""

_PROBLEMS = {
    "400": "The request is wrong; the detail says where.",
    "401": "The token is missing or wrong.",
    "404": "There is no such resource, host, entity or metric.",
    "405": "Another method is needed; Allow says which.",
    "406": "Nothing here is of a type that is acceptable.",
    "408": "The body did not come in time.",
    "409": "It contradicts what is known.",
    "413": "The body is too long.",
    "414": "The query string is too long.",
    "415": "The body is of another type.",
    "421": "The request is for another host.",
    "422": "The answer would be too large.",
    "431": "The headers are too long.",
    "503": "The shards cannot be read now, or too much is asked at once; age_seconds is that of the last picture.",
}


class Operation:
    """One operation: everything that a client must know of it."""

    def __init__(
        self,
        path: str,
        name: str,
        summary: str,
        *,
        method: str = "get",
        parameters: Sequence[Parameter] = (),
        in_path: Mapping[str, str] | None = None,
        answer: Any = None,
        answers: Mapping[str, Any] | None = None,
        body: Any = None,
        problems: Iterable[str] = (),
        headers: Sequence[dict[str, Any]] = (),
        status: str = "200",
        conditional: bool = True,
    ) -> None:
        self.path, self.name, self.summary, self.method = path, name, summary, method
        self.parameters, self.in_path = tuple(parameters), dict(in_path or {})
        self.answer, self.answers, self.body = answer, dict(answers or {}), body
        self.problems, self.headers, self.status = tuple(problems), tuple(headers), status
        self.conditional = conditional

    def types(self) -> list[Any]:
        """The types that need a schema."""
        return [kind for kind in (self.answer, self.body) if kind is not None and not isinstance(kind, dict)]


def document(operations: Sequence[Operation], token: bool) -> dict[str, Any]:
    """The whole description; ``token``: clients must send one."""
    kinds = [kind for operation in operations for kind in operation.types()] + [ProblemDocument]
    references, schemas = msgspec.json.schema_components(kinds, ref_template=_TEMPLATE)
    by_kind = dict(zip(map(id, kinds), references, strict=True))
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation, by_kind)
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "shardpulse", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    if token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _operation(operation: Operation, by_kind: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    def schema(kind: Any) -> dict[str, Any]:
        return kind if isinstance(kind, dict) else by_kind[id(kind)]

    content = operation.answers or {"application/json": {"schema": schema(operation.answer)}}
    responses: dict[str, Any] = {operation.status: {"description": operation.summary, "content": content}}
    if operation.conditional:
        responses["304"] = {"description": "Nothing has changed since the tag that If-None-Match names."}
    problems = {"400", "401", "414", "421", "503", *operation.problems}
    if operation.in_path:
        problems.add("404")
    for status in sorted(problems):
        responses[status] = _problem(status)
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [_path_parameter(name, text) for name, text in operation.in_path.items()]
        + [parameter.schema() for parameter in operation.parameters]
        + list(operation.headers),
        "responses": responses,
    }
    if operation.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema(operation.body)}}}
    return found


def _problem(status: str) -> dict[str, Any]:
    reference = {"$ref": _TEMPLATE.format(name=ProblemDocument.__name__)}
    return {"description": _PROBLEMS[status], "content": {"application/problem+json": {"schema": reference}}}


def _path_parameter(name: str, text: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema}
