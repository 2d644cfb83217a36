"""Schema of shardpulse.toml: types and limits from annotations, validation.

It uses only the standard library: a machine with only a probe has nothing but hiredis installed. Error messages use
the words of msgspec, which describes the documents of other parts; a test compares them (docs/decisions/0107).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)
from typing import get_type_hints as hints


class Meta(NamedTuple):
    """Limits and meaning of a value; lengths are those of strings and lists."""

    description: str = ""
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Table:
    """Base of all tables: every subclass is a frozen dataclass with keyword-only arguments."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


T = TypeVar("T", bound=Table)


class Kind(NamedTuple):
    """Kind of a value: a ``base`` (a type of values, a Table, Literal or Union), its contents, its limits."""

    base: Any
    inner: tuple[Kind, ...] = ()
    limits: Meta = Meta()
    choices: tuple[Any, ...] = ()  #: for Literal


class Mismatch(Exception):
    """Value that its key does not permit: the key, and the reason as a sentence without the key."""

    def __init__(self, path: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.path = path


_FIELDS: dict[type[Table], Mapping[str, Kind]] = {}


def fields(table: type[Table]) -> Mapping[str, Kind]:
    """Keys of a table in their order."""
    if table not in _FIELDS:
        found = hints(table, include_extras=True)
        _FIELDS[table] = {name: _kind(found[name]) for name in table.__dataclass_fields__}
    return _FIELDS[table]


def convert(document: Mapping[str, Any], table: type[T]) -> T:
    """Table from TOML data. Raises Mismatch; unknown keys are left to the caller."""
    made = _converted(document, Kind(table), ())
    assert isinstance(made, table)
    return made


def of(path: tuple[str, ...], table: type[Table]) -> Kind | None:
    """Kind of the values that the key at ``path`` accepts; None if absent."""
    kind = Kind(table)
    for key in path:
        found = fields(kind.base).get(key) if is_table(kind) else None
        if found is None:
            return None
        kind = found
    return kind


def is_table(kind: Kind) -> bool:
    """Whether it has keys of its own."""
    return isinstance(kind.base, type) and issubclass(kind.base, Table)


def unknown_keys(value: object, kind: Kind, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Keys of ``value`` that its Table does not have, each with the known ones."""
    if not is_table(kind) or not isinstance(value, dict):
        return
    known = fields(kind.base)
    for key, inner in value.items():
        if key not in known:
            yield (*path, key), list(known)
        else:
            yield from unknown_keys(inner, known[key], (*path, key))


def _kind(hint: Any) -> Kind:
    if get_origin(hint) is Annotated:
        kind = _kind(hint.__origin__)
        for limits in hint.__metadata__:
            given = {name: value for name, value in limits._asdict().items() if value not in (None, "")}
            kind = kind._replace(limits=kind.limits._replace(**given))
        return kind
    base, inner = get_origin(hint) or hint, get_args(hint)
    if base is Literal:
        return Kind(Literal, (Kind(type(inner[0])),), choices=tuple(sorted(inner)))
    return Kind(Union if base is UnionType else base, tuple(map(_kind, inner)))


#: Names of TOML types in messages.
_NAMES: dict[type, str] = {dict: "object", list: "array", tuple: "array"}


def _name(kind: type) -> str:
    return "object" if issubclass(kind, Table) else _NAMES.get(kind, kind.__name__)


def _converted(value: Any, kind: Kind, path: tuple[str, ...]) -> Any:
    if kind.base is Union:
        return _converted(value, _member(value, kind, path), path)
    if kind.base is Literal:
        if _converted(value, kind.inner[0], path) not in kind.choices:
            raise Mismatch(path, f"Invalid enum value {value!r}")
        return value
    wanted = dict if is_table(kind) else list if kind.base is tuple else kind.base
    if type(value) is not wanted and not (wanted is float and type(value) is int):
        raise Mismatch(path, f"Expected `{_name(kind.base)}`, got `{_name(type(value))}`")
    made = _filled(value, kind, path)
    _check(made, kind, path)
    return made


def _filled(value: Any, kind: Kind, path: tuple[str, ...]) -> Any:
    if is_table(kind):
        known = fields(kind.base)
        return kind.base(**{key: _converted(inner, known[key], (*path, key)) for key, inner in value.items()})
    if kind.base is dict:
        return {key: _converted(inner, kind.inner[1], path) for key, inner in value.items()}
    if kind.base is tuple:
        if len(value) != len(kind.inner):
            raise Mismatch(path, f"Expected `array` of length {len(kind.inner)}, got {len(value)}")
        return tuple(_converted(each, inner, path) for each, inner in zip(value, kind.inner, strict=True))
    if kind.base is list:
        return [_converted(each, kind.inner[0], path) for each in value]
    if kind.base is float:
        try:
            return float(value)
        except OverflowError:
            raise Mismatch(path, "Number out of range") from None
    return value


def _member(value: Any, kind: Kind, path: tuple[str, ...]) -> Kind:
    """Member of a union that a value belongs to."""
    members = {member.base: member for member in kind.inner}
    if type(value) is int and int not in members and float in members:
        return members[float]
    if type(value) not in members:
        order = [name for base, name in _ORDER.items() if base in members]
        raise Mismatch(path, f"Expected `{' | '.join(order)}`, got `{_name(type(value))}`")
    return members[type(value)]


_ORDER = {bool: "bool", int: "int", float: "float", str: "str", list: "array", dict: "object"}


def _check(value: Any, kind: Kind, path: tuple[str, ...]) -> None:
    limits = kind.limits
    name = f"Expected `{_name(kind.base)}`"
    if limits.gt is not None and not value > limits.gt:
        raise Mismatch(path, f"{name} > {kind.base(limits.gt)}")
    if limits.ge is not None and not value >= limits.ge:
        raise Mismatch(path, f"{name} >= {kind.base(limits.ge)}")
    if limits.lt is not None and not value < limits.lt:
        raise Mismatch(path, f"{name} < {kind.base(limits.lt)}")
    if limits.le is not None and not value <= limits.le:
        raise Mismatch(path, f"{name} <= {kind.base(limits.le)}")
    if limits.min_length is not None and len(value) < limits.min_length:
        raise Mismatch(path, f"{name} of length >= {limits.min_length}")
    if limits.max_length is not None and len(value) > limits.max_length:
        raise Mismatch(path, f"{name} of length <= {limits.max_length}")
    if limits.pattern is not None and not re.search(limits.pattern, value):
        raise Mismatch(path, f"{name} matching regex {limits.pattern!r}")
