"""Values against a schema: accepted and refused as msgspec does, with the same words."""

from __future__ import annotations

import datetime
import re
from typing import Annotated, Any, Literal, Union

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.config import schema
from acquisition.config.settings import Settings


def reference(kind: schema.Kind) -> Any:
    """The same as msgspec's own type."""
    inner = tuple(map(reference, kind.inner))
    given_limits = {name: value for name, value in kind.limits._asdict().items() if value not in (None, "")}
    hint: Any = kind.base
    if schema.is_table(kind):
        members = [(name, reference(member), None) for name, member in schema.fields(kind.base).items()]
        hint = msgspec.defstruct(kind.base.__name__, members)
    elif kind.base is Literal:
        hint = Literal[kind.choices]
    elif kind.base is Union:
        hint = Union[inner]  # noqa: UP007 - of a tuple
    elif inner:
        hint = kind.base[inner]
    given_limits.pop("description", None)
    return Annotated[hint, msgspec.Meta(**given_limits)] if given_limits else hint


REFERENCE = {path: reference(schema.fields(Settings)[path]) for path in schema.fields(Settings)}


def kinds(table: Any = Settings, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, kind in schema.fields(table).items():
        found += kinds(kind.base, (*path, name)) if schema.is_table(kind) else [(*path, name)]
    return found


def outcome(document: dict[str, Any], path: tuple[str, ...]) -> object:
    """The value that a key got, by repr (NaN is NaN, and 1 is not 1.0), or where and why it was refused."""
    try:
        made: Any = schema.convert(document, Settings)
    except schema.Mismatch as error:
        return error.path, str(error)
    for key in path:
        made = getattr(made, key)
    return repr(made)


def expected_outcome(document: dict[str, Any], path: tuple[str, ...]) -> object:
    """The same of msgspec."""
    try:
        made = msgspec.convert(document[path[0]], REFERENCE[path[0]])
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        return (path[0], *re.sub(r"\[.*?\]", "", where.rstrip("`")).split(".")[1:]), message
    for key in path[1:]:
        made = getattr(made, key)
    return repr(made)


WORDS = ["auto", "procfs", "vms", "cpu_busy_ratio", "host.cpu"]
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.sampled_from([0, 1, 6, 10**400, 0.5, 1e9, float("nan"), float("inf")]),
    st.floats(),
    st.text(max_size=300),
    st.sampled_from(WORDS),
    st.sampled_from([datetime.date(2026, 1, 1), datetime.time(1), datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)]),
)
LISTED = st.lists(SCALARS, max_size=3)
VALUES = SCALARS | LISTED | st.dictionaries(st.text(max_size=5), SCALARS | LISTED, max_size=3)


@given(st.sampled_from(kinds()), VALUES)
def test_a_value_is_taken_or_refused_as_msgspec_does(path: tuple[str, ...], value: Any) -> None:
    document = value
    for key in reversed(path):
        document = {key: document}
    assert outcome(document, path) == expected_outcome(document, path)


@pytest.mark.parametrize("path", [("nothing",), ("probe", "nothing"), ("probe", "interval_seconds", "more")])
def test_there_is_no_kind_of_a_key_that_is_none(path: tuple[str, ...]) -> None:
    assert schema.of(path, Settings) is None
