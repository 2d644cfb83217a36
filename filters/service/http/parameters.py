"""Query parameters: types, documentation and checks.

An unknown parameter is an error: a misspelt filter would otherwise
return everything. Lengths and numbers are limited before anything is compiled or compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from acquisition.snapshot.values.states import STATES
from filters.service.http.problem import Problem, bad_request

_MOST_VALUES = 8  #: of one parameter, or the number of its choices
_LONGEST_PATTERN = 128
_MOST_WILDCARDS = 8  #: a pattern with many stars is slow on names that nearly match
_MOST_DIGITS = 16
_MOST_PARTS = 256  #: of a whole query string

Values = Mapping[str, tuple[str, ...]]


class Parameter(NamedTuple):
    """One query parameter. ``choices`` (if any): all permitted values. Values are separated by commas, or the parameter
    is repeated, unless it is ``single`` or a number, which has ``most``; ``labels``: selectors of labels. A
    ``required`` one must be present."""

    name: str
    description: str
    choices: tuple[str, ...] = ()
    most: int = 0
    single: bool = False
    labels: bool = False
    required: bool = False

    @property
    def most_values(self) -> int:
        """Maximum number of values: a query string of permitted parameters is never too long."""
        return 1 if self.most or self.single else max(_MOST_VALUES, len(self.choices))

    def schema(self) -> dict[str, Any]:
        """The parameter object of the interface description (OpenAPI 3.1)."""
        if self.most:
            schema: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": self.most}
        else:
            item: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": _LONGEST_PATTERN}
            item = {"type": "string", "enum": list(self.choices)} if self.choices else item | {"pattern": self._pattern}
            several = {"type": "array", "items": item, "minItems": 1, "maxItems": self.most_values}
            schema = item if self.single else several
        style = {} if self.most or self.single else {"style": "form", "explode": False}
        found = {"name": self.name, "in": "query", "description": self.description, "schema": schema, **style}
        return {**found, "required": True} if self.required else found

    @property
    def _pattern(self) -> str:
        return _LABEL_PATTERN if self.labels else f"^{_PATTERN}$"


#: Syntax of a pattern: no commas and control characters, a limited number of wildcards.
_PATTERN = r"[^,*?\[\x00-\x1f\x7f]*([*?\[][^,*?\[\x00-\x1f\x7f]*){0,8}"
#: A name without wildcards, not blank, and optionally a pattern of its value.
_LABEL_PATTERN = rf"^[^ ,=*?\[\x00-\x1f\x7f-\xa0\u1680-\u3000]+(={_PATTERN})?$"

HOST = Parameter("host", "hosts by name or hexadecimal id; * and ? are wildcards")
SET = Parameter("set", "resource sets by name: host, processes, vms; * and ? are wildcards")
ENTITY = Parameter("entity", "entities by name, stable id, pid or hexadecimal id; * and ? are wildcards")
_SELECTOR = "NAME=VALUE (* and ? are wildcards of the value) or NAME; of several names all must hold"
LABEL = Parameter("label", f"hosts by their labels: {_SELECTOR}", labels=True)
ENTITY_LABEL = Parameter("entity_label", f"VMs and processes by their labels: {_SELECTOR}", labels=True)
COHERENT, LATEST = "coherent", "latest"
READING = Parameter(
    "reading",
    "coherent: one complete tick for all rows; latest: the newest tick of each row, with its age (default: "
    f"{COHERENT})",
    (COHERENT, LATEST),
    single=True,
)
MOST_ROWS = 100_000
TOP = Parameter(
    "top",
    "only the N entities of each host and set with the highest mean of cpu_ratio, or else of the first "
    "metric, in this order (default: all)",
    most=MOST_ROWS,
)
LIMIT = Parameter("limit", "maximum length of each list (default: all)", most=MOST_ROWS)
AFTER = Parameter("after", "only hosts whose name sorts after this one: `next` of the previous page", single=True)
HOSTS = Parameter(
    "limit", "maximum number of hosts, by name; `next` is the start of the next page (default: all)", most=MOST_ROWS
)
METRIC = Parameter("metric", "metrics by name; * and ? are wildcards")
STATE = Parameter("state", "only items in one of these states", STATES)


def parse(query: bytes, parameters: Sequence[Parameter], most_bytes: int) -> dict[str, tuple[str, ...]]:
    """Values by name, all of them checked. Raises Problem (400, 414)."""
    if len(query) > most_bytes:
        raise Problem(414, "query-too-long", f"query string too long: {len(query)} bytes, at most {most_bytes} allowed")
    known = {parameter.name: parameter for parameter in parameters}
    found: dict[str, tuple[str, ...]] = {}
    for name, value in _pairs(query):
        parameter = known.get(name)
        if parameter is None:
            raise bad_request(f"unknown parameter {name!r}; expected one of: {', '.join(known) or 'none'}", name)
        values = value.split(",") if parameter.most_values > 1 else [value]
        for one in values:
            _check(parameter, one)
        found[name] = found.get(name, ()) + tuple(values)
        if len(found[name]) > parameter.most_values:
            raise bad_request(f"{name} has more than {_values(parameter.most_values)}", name)
    missing = [parameter.name for parameter in parameters if parameter.required and parameter.name not in found]
    if missing:
        raise bad_request(f"{missing[0]} is required", missing[0])
    return found


def canonical(values: Values) -> str:
    """Text that is equal for equal requests, whatever the order of their parameters."""
    return "&".join(f"{name}={value!r}" for name in sorted(values) for value in sorted(values[name]))


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARTS)
    except UnicodeDecodeError as error:
        raise bad_request("invalid query string: not percent-encoded UTF-8 (RFC 3986)") from error
    except ValueError as error:
        raise bad_request(f"invalid query string: {error}") from error


def _values(number: int) -> str:
    return "one value" if number == 1 else f"{number} values"


def _check(parameter: Parameter, value: str) -> None:
    name = parameter.name
    if parameter.most:
        number = int(value) if value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS else 0
        if not 1 <= number <= parameter.most:
            raise bad_request(f"{name}: expected a whole number from 1 to {parameter.most}", name)
    elif parameter.choices:
        if value not in parameter.choices:
            raise bad_request(f"{name} {value!r}: expected one of {', '.join(parameter.choices)}", name)
    elif not 0 < len(value) <= _LONGEST_PATTERN:
        raise bad_request(f"{name}: expected a pattern of 1 to {_LONGEST_PATTERN} characters", name)
    elif parameter.labels and not _is_selector(value):
        raise bad_request(
            f"{name} {value!r}: expected NAME=VALUE or NAME, without blanks or wildcards in the name", name
        )
    elif sum(map(value.count, "*?[")) > _MOST_WILDCARDS:
        raise bad_request(f"{name} has more than {_MOST_WILDCARDS} wildcards", name)
    elif any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise bad_request(f"{name} contains control characters", name)


def _is_selector(value: str) -> bool:
    name = value.partition("=")[0]
    return bool(name) and not any(letter in "*?[" or letter.isspace() for letter in name)
