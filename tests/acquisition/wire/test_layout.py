"""Layouts and record formats: golden bytes, what an older or newer version writes, and what is none."""

from __future__ import annotations

import pytest

from acquisition.errors import ConfigError
from acquisition.wire import keys, layout
from acquisition.wire.layout import Layout
from acquisition.wire.records import recent, record_format, smoothed

GOLDEN = b'{"format": 1, "partitions": 8, "keep_ticks": 5, "record_format": 3}'


def test_golden_bytes() -> None:
    assert layout.encode(Layout(8, 5, 3)).encode() == GOLDEN
    assert layout.decode(GOLDEN) == Layout(8, 5, 3)
    assert Layout(8).tags == keys.tags(8)


def test_layouts_of_later() -> None:
    later = layout.decode(b'{"format": 1, "partitions": 8, "keep_ticks": 3, "record_format": 99, "more": []}')
    assert later.record_format == 99  # probes go on: it is not theirs to write records


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"7", b'{"format": 1}', b'{"format": 1, "partitions": 0}', b'{"format": 2, "partitions": 8}',
             b'{"format": 1, "partitions": 8}',
             b'{"format": 1, "partitions": 8, "record_format": "new"}', b"\xff"],
)  # fmt: skip
def test_what_is_no_layout(data: bytes) -> None:
    with pytest.raises(ConfigError, match="layout"):
        layout.decode(data)


def test_every_format_is_read_and_the_newest_is_written() -> None:
    assert max(record_format.FORMATS) == record_format.NEWEST
    assert len(record_format.FORMATS) <= 2
    newest = record_format.versions(record_format.NEWEST)
    for module, name in ((smoothed, "smoothed"), (recent, "recent")):
        assert set(module.VERSIONS) == {getattr(each, name) for each in record_format.FORMATS.values()}
        assert getattr(newest, name) == module.VERSION


@pytest.mark.parametrize(("number", "words"), [(record_format.NEWEST + 1, "a newer one here"), (0, "intermediate")])
def test_formats_that_are_not_known(number: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        record_format.versions(number)
