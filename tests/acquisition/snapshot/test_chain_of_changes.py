"""A chain of entries tells of every commit, or says nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from acquisition.snapshot.following import At, chain
from acquisition.wire import changes, commit
from acquisition.wire.commit import Commit

START = At(b"c0", b"5-0")


def entries(*pairs: tuple[str, str]) -> list[Any]:
    return [
        [b"%d-0" % (10 + at), changes.encode(before.encode(), after.encode(), b"", [])]
        for at, (before, after) in enumerate(pairs)
    ]


def newest(name: str) -> bytes:
    return commit.encode(Commit(name.encode(), b"1-1", 0))


def test_a_chain_goes_on_from_where_it_was_followed_to() -> None:
    found = chain(START, newest("c2"), entries(("b", "c0"), ("c0", "c1"), ("c1", "c2"), ("c2", "c3")))
    assert found is not None
    assert [each.commit for each in found[0]] == [b"c1", b"c2", b"c3"]
    assert found[1] == At(b"c3", b"(13-0")  # what was committed after the commit was read is newer, and known
    assert chain(START, newest("c0"), []) == ([], START)
    assert chain(At(b"", b"5-0"), None, []) == ([], At(b"", b"5-0"))  # nobody has committed anything yet


@pytest.mark.parametrize(
    ("committed", "told"),
    [
        (newest("c1"), []),  # nothing is told of it
        (newest("c3"), entries(("c0", "c1"), ("c2", "c3"))),  # one is missing
        (newest("c3"), entries(("c0", "c1"), ("c1", "c2"))),  # the last one is
        (newest("c3"), entries(("c1", "c2"), ("c2", "c3"))),  # what comes first is cut
        (newest("c0"), entries(("c0", "c1"), ("x", "c2"))),
        (newest("c1"), [[b"1-0", [b"f", b"x"]]]),
        (newest("c1"), [[b"1-0", None]]),
        (None, []),  # the shard has come back empty
        (newest("c0"), ValueError("WRONGTYPE")),
        (ValueError("MOVED"), []),
    ],
)
def test_a_broken_chain_says_nothing(committed: Any, told: Any) -> None:
    assert chain(START, committed, told) is None


def test_whatever_is_left_out_is_noticed() -> None:
    chance = random.Random(3)
    for _ in range(2000):
        count = chance.randrange(1, 8)
        told = entries(*((f"c{at}", f"c{at + 1}") for at in range(count)))
        kept = [each for each in told if chance.random() < 0.8]
        reached = chance.randrange(count + 1)
        found = chain(START, newest(f"c{reached}"), kept)
        if found is not None:
            assert kept[: len(found[0])] == told[: len(found[0])]
            assert len(found[0]) >= reached
        elif kept == told:
            pytest.fail("nothing is missing")
