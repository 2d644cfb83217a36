"""Layouts and record formats: golden bytes, what an older or newer version writes, and what is none."""

from __future__ import annotations

import pytest

from acquisition.errors import ConfigError
from acquisition.wire import inputs, keys, layout, recent, record_format, smoothed
from acquisition.wire.layout import Layout

GOLDEN = b'{"format": 1, "partitions": 8, "keep_ticks": 5, "record_format": 2}'


def test_golden_bytes() -> None:
    assert layout.encode(Layout(8, 5, 2)).encode() == GOLDEN
    assert layout.decode(GOLDEN) == Layout(8, 5, 2)
    assert Layout(8).tags == keys.tags(8)


def test_layouts_of_before_there_were_record_formats_and_of_later() -> None:
    assert layout.decode(b'{"format": 1, "partitions": 8}') == Layout(8, 3, record_format.UNNAMED)
    later = layout.decode(b'{"format": 1, "partitions": 8, "keep_ticks": 3, "record_format": 99, "more": []}')
    assert later.record_format == 99  # probes go on: it is not theirs to write records


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"7", b'{"format": 1}', b'{"format": 1, "partitions": 0}', b'{"format": 2, "partitions": 8}',
             b'{"format": 1, "partitions": 8, "record_format": "new"}', b"\xff"],
)  # fmt: skip
def test_what_is_no_layout(data: bytes) -> None:
    with pytest.raises(ConfigError, match="layout"):
        layout.decode(data)


def test_software_knows_two_formats_and_reads_the_records_of_both() -> None:
    assert sorted(record_format.FORMATS) == [record_format.NEWEST - 1, record_format.NEWEST]
    assert record_format.UNNAMED in record_format.FORMATS
    before, newest = (record_format.versions(number) for number in sorted(record_format.FORMATS))
    for module, name in ((smoothed, "smoothed"), (inputs, "inputs"), (recent, "recent")):
        assert set(module.VERSIONS) == {getattr(before, name), getattr(newest, name)}
        assert getattr(newest, name) - getattr(before, name) in (0, 1)
        assert getattr(newest, name) == module.VERSION


@pytest.mark.parametrize(("number", "words"), [(record_format.NEWEST + 1, "a newer one here"), (0, "between")])
def test_formats_that_are_not_known(number: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        record_format.versions(number)
