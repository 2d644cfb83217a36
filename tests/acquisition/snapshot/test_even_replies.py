"""Replies that are taken as they came say what the parser says of them, or that they are other ones."""

from __future__ import annotations

import contextlib
import random

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.link.batch import Batch
from acquisition.link.cluster import Cluster
from acquisition.link.resp import ReplyError, packed
from acquisition.shards.launch import Shards
from acquisition.snapshot.even_replies import EvenReply, RowBytes, values_of
from acquisition.wire import keys

FIELDS = [b"%02d" % number for number in range(5)]
TAGS = keys.tags(keys.DEFAULT_PARTITIONS)[:12]


def parsed(data: bytes) -> object:
    reader = hiredis.Reader()
    reader.feed(data)
    return reader.gets()


def listed(values: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(values) + b"".join(b"$%d\r\n%s\r\n" % (len(value), value) for value in values)


@given(st.lists(st.binary(min_size=3, max_size=3), max_size=5), st.integers(0, 9))
def test_an_even_reply_is_what_the_parser_says(values: list[bytes], before: int) -> None:
    raw = bytes(before) + listed(values)
    found = EvenReply.of_list(len(values), 3).values(memoryview(raw), before)
    assert found is not None
    assert list(RowBytes(found)) == values == parsed(raw[before:])


@given(st.lists(st.binary(max_size=5), max_size=5), st.binary(max_size=9), st.integers(0, 40))
def test_whatever_came_is_either_that_or_another_one(values: list[bytes], noise: bytes, at: int) -> None:
    raw = listed(values)
    raw = raw[:at] + noise + raw[at + len(noise) :]
    for count in range(6):
        found = EvenReply.of_list(count, 3).values(memoryview(raw), 0)
        if found is not None:
            assert raw.startswith(b"*%d\r\n" % count)
            assert all(raw.count(b"$3\r\n" + value) for value in RowBytes(found))


def test_a_hash_with_other_fields_is_another_reply() -> None:
    expected = EvenReply.of_hash(FIELDS, 4)
    assert expected is not None
    values = [b"abc%d" % number for number in range(5)]
    raw = listed([each for pair in zip(FIELDS, values, strict=True) for each in pair])
    found = expected.values(memoryview(raw), 0)
    assert found is not None
    assert list(RowBytes(found)) == values
    assert RowBytes(found)[1:3] == values[1:3]
    for other in (raw.replace(b"03", b"07"), raw[:-1], raw.replace(b"*10", b"*12"), b"-MOVED 1 127.0.0.1:1\r\n"):
        assert expected.values(memoryview(other), 0) is None
    assert EvenReply.of_hash([b"a", b"bc"], 4) is None
    empty = EvenReply.of_hash([], 4)
    assert empty is not None
    assert empty.values(memoryview(b"*0\r\n"), 0) is not None


def test_shards_are_asked_and_their_answers_put_together(shards: Shards, cluster: Cluster) -> None:
    chance = random.Random(2)
    names = [[f"smoothed:{{{tag}}}:{number}" for number in range(chance.randrange(1, 30))] for tag in TAGS]
    written = [(name, ("SET", name, chance.randbytes(3000))) for part in names for name in part]
    cluster.gather(written)
    batch = Batch([(part[0], packed(("MGET", *part))) for part in names])
    expected = [EvenReply.of_list(len(part), 3000) for part in names]
    with contextlib.closing(shards.connect()) as other:
        for _ in range(3):
            raw = other.ask_raw(batch)
            assert raw is not None
            found = values_of(batch, raw, expected)
            assert found is not None
            assert list(RowBytes(found)) == [words[2] for _, words in written]
        assert other.gather(batch) == [[words[2] for _, words in written if words[1] in part] for part in names]
        other.call(names[0][0], "SET", names[0][0], "short")
        raw = other.ask_raw(batch)
        assert raw is not None
        assert values_of(batch, raw, expected) is None
        assert other.gather(batch)[0][0] == b"short"


def test_an_error_among_the_answers_is_no_even_reply(shards: Shards, cluster: Cluster) -> None:
    key = f"raw:{{{TAGS[0]}}}"
    cluster.call(key, "SET", key, "text")
    batch = Batch([(key, packed(("HGETALL", key)))])
    expected = EvenReply.of_hash([], 4)
    assert expected is not None
    raw = cluster.ask_raw(batch)
    assert raw is not None
    assert bytes(raw[0]).startswith(b"-WRONGTYPE")
    assert values_of(batch, raw, [expected]) is None
    assert isinstance(cluster.gather(batch)[0], ReplyError)


@pytest.mark.parametrize("size", [1, 1 << 16, 3 << 20])
def test_answers_of_any_size_come_whole(cluster: Cluster, size: int) -> None:
    key = f"raw:{{{TAGS[0]}}}"
    cluster.call(key, "SET", key, b"x" * size)
    for _ in range(2):
        raw = cluster.ask_raw(Batch([(key, ("GET", key))]))
        assert raw is not None
        assert bytes(raw[0]) == b"$%d\r\n%s\r\n" % (size, b"x" * size)
