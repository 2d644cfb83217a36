"""Interface description (OpenAPI 3.1), made from declarations of resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from acquisition import __version__
from filters.documents.encoding import encode
from filters.service.http.parameters import Values
from filters.service.http.problem import ProblemDocument
from filters.service.interface.resource import Parts, Resource
from filters.service.ticks.tick_cache import Answer, send_answer

_TEMPLATE = "#/components/schemas/{name}"
_WRITER = "writer"  #: the token required for writing
_NAMES = ("host", "label", "entity_label", "set", "metric")  #: parameters that must match something
_DESCRIPTION = """\
Every host, process and VM of a data center, about one second old, checked and smoothed. A missing value
is null, never 0; every value comes with validity and age. The ETag of an answer is that of its tick:
If-None-Match costs nothing until the next one. Errors are problem documents (RFC 9457)."""

_PROBLEMS = {
    "400": "Invalid request; see detail.",
    "401": "Missing or wrong token.",
    "404": "Unknown resource, host, entity or metric.",
    "405": "Method not allowed; see Allow.",
    "406": "No representation of an acceptable type.",
    "408": "Timeout while reading the body.",
    "409": "Conflict with the current state.",
    "413": "Body too long.",
    "414": "Query string too long.",
    "415": "Unsupported type of body.",
    "421": "Request for another host.",
    "422": "Answer too large.",
    "429": "Too many write requests from this address; see Retry-After.",
    "431": "Headers too long.",
    "503": "Shards unavailable, or too many concurrent requests; age_seconds is the age of the last snapshot.",
}


def description(others: Sequence[Resource], parts: Parts) -> Resource:
    """Resource of the description: of the other resources, and of itself."""
    own = Resource("/openapi.json", "openapi", "This description (OpenAPI 3.1)", {"type": "object"})
    body = encode(document([*others, own], parts.token))
    answer = Answer(body, f'W/"{len(body)}-{hash(body) & 0xFFFFFFFF:x}"'.encode())

    async def handle(_: Values, scope: Scope, __: Receive, send: Send) -> None:
        await send_answer(answer, scope, send)

    return own._replace(handle=handle)


def document(resources: Sequence[Resource], token: bool) -> dict[str, Any]:
    """The whole description; ``token``: clients must send one."""
    documents = [kind for resource in resources for kind in (resource.answer, resource.body)]
    kinds = [kind for kind in documents if kind is not None and not isinstance(kind, dict)] + [ProblemDocument]
    references, schemas = msgspec.json.schema_components(kinds, ref_template=_TEMPLATE)
    by_kind = dict(zip(map(id, kinds), references, strict=True))
    paths: dict[str, Any] = {}
    for resource in resources:
        paths.setdefault(resource.path, {})[resource.method.lower()] = _operation(resource, by_kind)
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "shardpulse", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    found["components"]["securitySchemes"] = {_WRITER: {"type": "http", "scheme": "bearer"}}
    if token:
        found["components"]["securitySchemes"]["token"] = {"type": "http", "scheme": "bearer"}
        found["security"] = [{"token": []}]
    return found


def table(resources: Sequence[Resource]) -> str:
    """The resources as a table of docs/http.md."""
    rows = []
    for resource in resources:
        given = ", ".join(f"`{parameter.name}=`" for parameter in resource.parameters)
        method = "" if resource.method == "GET" else f"{resource.method} "
        topic = "; also a topic of the stream" if resource.topic else ""
        rows.append(f"| {method}`{resource.path}` | {resource.summary}{topic} | {given} |")
    return "\n".join(["| path | answer | parameters |", "|---|---|---|", *rows])


def _operation(resource: Resource, by_kind: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    def schema(kind: Any) -> dict[str, Any]:
        return kind if isinstance(kind, dict) else by_kind[id(kind)]

    content = {media: {"schema": {"type": "string"}} for media in resource.media}
    if not content:
        content = {"application/json": {"schema": schema(resource.answer)}}
    responses: dict[str, Any] = {"200": {"description": resource.summary, "content": content}}
    if resource.conditional:
        responses["304"] = {"description": "Unchanged since the tag in If-None-Match."}
    for status in sorted(_problems_of(resource)):
        responses[status] = _problem(status)
    found: dict[str, Any] = {
        "operationId": resource.name,
        "summary": resource.summary,
        "parameters": [_path_parameter(name, text) for name, text in resource.in_path.items()]
        + [parameter.schema() for parameter in resource.parameters]
        + list(resource.headers),
        "responses": responses,
    }
    if resource.method != "GET":
        found["security"] = [{_WRITER: []}]
    if resource.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema(resource.body)}}}
    return found


def _problems_of(resource: Resource) -> set[str]:
    """Status codes of possible errors; unknown names and labels are 404."""
    named = resource.in_path or any(parameter.name in _NAMES for parameter in resource.parameters)
    return {"400", "401", "414", "421", "503", *resource.problems, *(("404",) if named else ())}


def _problem(status: str) -> dict[str, Any]:
    reference = {"$ref": _TEMPLATE.format(name=ProblemDocument.__name__)}
    return {"description": _PROBLEMS[status], "content": {"application/problem+json": {"schema": reference}}}


def _path_parameter(name: str, text: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema}
