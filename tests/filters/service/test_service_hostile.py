"""Whatever bytes come: a problem or an answer, never a fault; and numbers keep the digits that they have."""

from __future__ import annotations

import json
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.model.inputs import DecisionInputs
from filters.documents.columns import BlockDocument, EntityName, SnapshotDocument
from filters.documents.encoding import encode, encode_around, encode_long
from filters.documents.figures import inputs_document, rounded
from filters.service.http.parameters import ENTITY, HOST, METRIC, SET, Parameter, canonical, parse
from filters.service.http.problem import Problem
from filters.service.interface.resource import Request
from filters.service.ticks.tick_cache import Answer, accepts_gzip, matches
from filters.text.quantities import digits, exact

KNOWN = (HOST, SET, ENTITY, METRIC, Parameter("state", "", ("late", "down")), Parameter("limit", "", most=99))
WORDS = st.sampled_from(
    [b"host=", b"&", b"=", b"%", b"%ff", b"%00", b"*", b"[", b"state=late", b"limit=", b"9", b"+", b";"]
)
QUERIES = st.lists(st.one_of(WORDS, st.binary(max_size=8)), max_size=30).map(b"".join)


@given(QUERIES)
@settings(max_examples=400, deadline=None)
def test_any_query_string_is_read_or_refused(query: bytes) -> None:
    refused: Problem | None = None
    values: dict[str, tuple[str, ...]] = {}
    try:
        values = parse(query, KNOWN, 200)
    except Problem as problem:
        refused = problem
    assert refused is None or (refused.status in (400, 414) and json.loads(refused.body())["detail"])
    assert set(values) <= {parameter.name for parameter in KNOWN}
    assert Request({}, values, 0).selection.takes_metric("cpu_ratio") in (True, False)
    assert canonical(values) == canonical(dict(reversed(values.items())))


def test_patterns_that_take_long_elsewhere_do_not_here() -> None:
    found = Request({}, {"entity": ("*a*a*a*a*a*a*a*b",)}, 0).selection
    assert found.entities is not None
    assert found.entities.match("a" * 5000) is None


@given(st.binary(max_size=60), st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_headers(encoding: bytes, tags: bytes) -> None:
    assert accepts_gzip(encoding) in (True, False)
    assert matches(tags, b'W/"1-a"') in (True, False)


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
@settings(max_examples=300, deadline=None)
def test_seven_digits_as_text_would_have_them(values: list[float]) -> None:
    (found,) = rounded(np.array([values], np.float32))
    for value, short in zip(values, found, strict=True):
        if not math.isfinite(value):
            assert short is None
        else:
            assert math.isclose(short, digits(value), rel_tol=2e-7, abs_tol=1e-300)


def test_whole_numbers_and_what_is_nearly_nothing() -> None:
    values = [4294967296.0, 2.0**40, 12345678.0, 16777217.0, -(2.0**33), 2.8e-45, -1e-40]
    expected = [4294967296.0, 2.0**40, 12345678.0, 16777217.0, -(2.0**33), 0.0, 0.0]
    assert [digits(value) for value in values] == expected
    assert rounded(np.array([values]))[0] == expected
    assert [exact(value) for value in values[:2]] == ["4294967296", "1099511627776"]
    assert exact(2.8e-45) == "0"


def test_no_figure_that_goes_on_without_a_valid_sample() -> None:
    found = DecisionInputs(30, 0, 0, 0.8999999761581421, 0.0, 0.0, None, None, None, None, 5.0, True)
    document = inputs_document(found)
    assert document is not None
    assert (document.threshold, document.cusum, document.time_above_seconds) == (0.9, None, None)
    one = inputs_document(found._replace(valid=1))
    assert one is not None
    assert (one.cusum, one.time_above_seconds) == (0.0, 0.0)


def test_readable_digits() -> None:
    values = np.array([[0.1, 1e-7, 123456.7, 3e9, 0.0, -0.25, 1.5e38]], np.float32)
    assert rounded(values)[0][:6] == [0.1, 1e-7, 123456.7, 3e9, 0.0, -0.25]


@given(st.text(st.characters(exclude_categories=[]), max_size=20))
@settings(max_examples=200, deadline=None)
def test_any_name_travels(name: str) -> None:
    assert isinstance(json.loads(encode({"name": name, "value": math.nan}))["name"], str)


NAMES = st.text(st.characters(exclude_categories=[]), max_size=8)


@given(st.lists(NAMES, max_size=5), st.lists(st.floats(), max_size=5), NAMES)
@settings(max_examples=200, deadline=None)
def test_a_long_document_is_the_same_in_pieces(names: list[str], values: list[float], other: str) -> None:
    rows = [{"name": name, "values": values, "hot": []} for name in names]
    document = {"errors": [other, '"hot":[]'], "late": rows[:2], "hot": rows, "tick": 1, "none": None}
    whole = json.loads(encode(document))
    assert json.loads(encode_long(document, "hot", "late", "absent")) == whole
    assert document["hot"] == []
    assert encode_long({"hot": []}, "hot") == b'{"hot":[]}'


def test_structs_are_encoded_in_pieces_too() -> None:
    rows = [EntityName(f"{number:016x}", "vm", f"vm-{number}", "uuid", "1", False, False) for number in range(3)]
    block = BlockDocument("web", "1", "vms", 1, 1.0, 2.0, None, "current", "", "", None, [], rows, mean=[[1.0]])
    document = SnapshotDocument(1, 2.0, "coherent", [], "", 0, None, [block, block])
    whole = encode(document)
    assert encode_long(document, "blocks") == whole
    assert encode_long(block, "entities") in whole
    one = SnapshotDocument(1, 2.0, "coherent", [], "", 0, None, [block])
    assert encode_around(document, "blocks", encode([block])) == encode(one)


def test_small_answers_are_not_compressed() -> None:
    small, large = Answer(b"{}", b'W/"1"'), Answer(b"x" * 5000, b'W/"1"')
    assert small.messages(True) == small.messages(False)
    assert len(large.messages(True)[1]["body"]) < 200
    assert large.size > 5000
