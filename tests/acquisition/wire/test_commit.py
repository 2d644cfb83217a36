"""Commits: golden bytes, round trip, what is none, and that Lua finds the same id."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.link.cluster import Cluster
from acquisition.wire import position
from acquisition.wire.position import Commit
from tests.support import FIXTURES

GOLDEN = FIXTURES / "frames" / "commit.txt"
COMMIT = Commit(b"0123456789abcdef", b"1700000000123-4", 5, 60_000)


def test_golden_bytes() -> None:
    whole, without = GOLDEN.read_bytes().splitlines()
    assert (position.encode_commit(COMMIT), position.encode_commit(COMMIT._replace(fair_share=0))) == (whole, without)
    assert (position.decode_commit(whole), position.decode_commit(without)) == (COMMIT, COMMIT._replace(fair_share=0))


counts = st.integers(0, 2**53 - 1)


@given(st.from_regex(rb"[0-9a-f]{16}", fullmatch=True), counts, counts, counts, counts)
def test_round_trip(name: bytes, milliseconds: int, number: int, rejected: int, share: int) -> None:
    content = Commit(name, b"%d-%d" % (milliseconds, number), rejected, share)
    assert position.decode_commit(position.encode_commit(content)) == content
    assert position.id_of(position.encode_commit(content)) == name


def test_words_of_a_newer_version_are_passed_over() -> None:
    assert position.decode_commit(position.encode_commit(COMMIT) + b" more to come") == COMMIT


@pytest.mark.parametrize(
    "data", [b"", b"garbage", b"a 1-1", b"a 1 1", b"a 1-1 x", b"a 1-1 1x", b"\xff 1-1 1", b"a-b 1-1 1"]
)
def test_bytes_that_are_no_commit(data: bytes) -> None:
    with pytest.raises(FrameError) as caught:
        position.decode_commit(data)
    assert caught.value.reason == "payload"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(st.binary(max_size=40) | st.just(position.encode_commit(COMMIT)))
def test_scripts_find_the_same_id(cluster: Cluster, data: bytes) -> None:
    script = f"return string.match(ARGV[1], '{position.LUA_ID}')"
    assert cluster.call("any", "EVAL", script, 0, data) == position.id_of(data)


def test_where_nothing_was_committed() -> None:
    assert position.id_of(None) == b""
