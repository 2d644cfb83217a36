"""Tables: round trip, merging, and payloads that are none."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.model.metric import COUNTER, GAUGE, INFINITY, Metric
from acquisition.wire import table
from acquisition.wire.table import Entity, Table
from tests.support import FIXTURES

GOLDEN = FIXTURES / "frames" / "table-payload.json"

METRICS = (
    Metric("cpu_ratio", "ratio", GAUGE, 0.0, 1.0, "share of the time"),
    Metric("block_in_bytes_per_second", "bytes/s", COUNTER, 0.0, INFINITY, ""),
)
TABLE = Table(
    "alpha", "processes", 2.0, "pidstat", True, METRICS,
    (
        Entity(2**64 - 1, "process", "4711", "boot:99", "post\u00fcfer \"x\""),
        Entity(5, "vm", "uuid", "4712", "guest", {"uuid": "1-2"}),
    ),
)  # fmt: skip


def test_golden_bytes() -> None:
    assert table.encode(TABLE) == GOLDEN.read_bytes()
    assert table.decode(GOLDEN.read_bytes()) == TABLE


text = st.text(max_size=20)
entities = st.builds(Entity, st.integers(0, 2**64 - 1), text, text, text, text, st.dictionaries(text, text, max_size=3))
bounds = st.floats(allow_nan=False)
metrics = st.builds(Metric, text, text, text, bounds.map(lambda x: -abs(x)), bounds.map(abs), text)
tables = st.builds(
    Table, text, text, st.floats(0.01, 1e6), text, st.booleans(),
    st.lists(metrics, max_size=4).map(tuple), st.lists(entities, max_size=5).map(tuple),
)  # fmt: skip


@given(tables)
def test_round_trip(content: Table) -> None:
    assert table.decode(table.encode(content)) == content


def outcome(payload: bytes) -> Table | None:
    try:
        return table.decode(payload)
    except FrameError:
        return None


def parsed_whole(payload: bytes) -> tuple[dict[str, Any], tuple[Metric, ...]]:
    document = json.loads(payload)
    return document, tuple(table._metric(*row) for row in document["metrics"])


FRAGMENTS = (b',"metrics":[', b'],"entities":[', b'"metrics":[]', b"{", b"}", b"[", b"]", b'"', b",", b"\0", b"\xff")


@given(tables, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 12), st.sampled_from(FRAGMENTS)), max_size=4))
def test_columns_that_are_parsed_once_change_nothing(content: Table, edits: list[tuple[int, int, bytes]]) -> None:
    payload = table.encode(content)
    for at, length, fragment in edits:
        payload = payload[:at] + fragment + payload[at + length :]
    with mock.patch.object(table, "_parsed", parsed_whole):
        expected = outcome(payload)
    assert outcome(payload) == expected


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_order(data: bytes) -> None:
    with pytest.raises(FrameError) as caught:
        table.decode(data)
    assert caught.value.reason == "payload"


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        table.encode(TABLE)[:-1],
        table.encode(TABLE).replace(b'"metrics":[[', b'"metrics":[["surplus",'),
        table.encode(TABLE).replace(b"ffffffffffffffff", b"no number"),
        table.encode(TABLE).replace(b'{"uuid":"1-2"}', b"17"),
        table.encode(TABLE).replace(b'"interval":2.0', b'"interval":[]'),
    ],
)
def test_payload_that_is_no_table(payload: bytes) -> None:
    with pytest.raises(FrameError, match="invalid table"):
        table.decode(payload)


def test_complete_table_replaces_what_was_known() -> None:
    new = TABLE._replace(entities=(Entity(9, "process", "1", "b", "init"),))
    assert table.merge(TABLE, new) == new
    assert table.merge(None, TABLE) == TABLE


def test_incomplete_table_adds_and_renames() -> None:
    added = Entity(9, "process", "1", "b", "init")
    renamed = TABLE.entities[1]._replace(name="renamed")
    merged = table.merge(TABLE, TABLE._replace(complete=False, entities=(added, renamed)))
    assert merged.entities == (TABLE.entities[0], renamed, added)


@pytest.mark.parametrize("place", ["host", "unit", "name", "label", "value"])
def test_lone_surrogates_are_no_text(place: str) -> None:
    """JSON can carry them (``"\\ud800"``), UTF-8 cannot; two of them that are a pair are a character like others."""

    def with_text(text: str) -> bytes:
        texts = dict.fromkeys(("host", "unit", "name", "label", "value"), "") | {place: text}
        metric = Metric("a", texts["unit"], GAUGE, 0.0, 1.0, "")
        entity = Entity(1, "vm", "u", "1", texts["name"], {texts["label"]: texts["value"]})
        return table.encode(Table(texts["host"], "s", 1.0, "", True, (metric,), (entity,)))

    assert table.decode(with_text("\U0001f600")) == table.decode(with_text("\ud83d\ude00"))
    with pytest.raises(FrameError, match="surrogates"):
        table.decode(with_text("a\ud83d"))


@pytest.mark.parametrize("number", ["NaN", "1e999", "-1e999", "9" * 401, '"1"', "true", "null", "0", "-1.0"])
def test_an_interval_is_a_finite_number_above_0(number: str) -> None:
    with pytest.raises(FrameError, match="invalid table"):
        table.decode(table.encode(TABLE).replace(b'"interval":2.0', b'"interval":' + number.encode()))


@pytest.mark.parametrize("key", ["-000000000000001", "1ffffffffffffffff", "0x00000000000001", "5", "FFFFFFFFFFFFFFFF"])
def test_an_id_has_64_bits_in_16_digits(key: str) -> None:
    with pytest.raises(FrameError, match="not a 64-bit id"):
        table.decode(table.encode(TABLE).replace(b"ffffffffffffffff", key.encode()))


def test_what_is_known_is_taken_where_it_is_the_same() -> None:
    known = {entity.id: entity for entity in TABLE.entities}
    relabelled = TABLE.entities[1]._replace(labels={"uuid": "1-3"})
    for entities in (TABLE.entities, (TABLE.entities[0], relabelled), (relabelled._replace(id=7),)):
        payload = table.encode(TABLE._replace(entities=entities))
        found = table.decode(payload, known)
        assert found == table.decode(payload)
        assert [each is known.get(each.id) for each in found.entities] == [each in TABLE.entities for each in entities]
