"""The state of a partition: golden bytes, round trips, what is none, and how large it is with many entities."""

from __future__ import annotations

import zlib

import msgspec
import numpy as np
import pytest

from acquisition.model.codes import RANGE
from filters.archive.database.errors import ArchiveDamaged
from filters.archive.following import state as states
from filters.archive.following.state import State
from filters.archive.minutes.episodes import Invalid
from filters.archive.minutes.numbers import Numbers, Span
from filters.archive.minutes.resource_set import ResourceSet
from filters.archive.minutes.values import Copy

MINUTE = 1_700_000_040


def filled(entities: int = 2) -> ResourceSet:
    """A set with something of everything."""
    one = ResourceSet((1 << 64) - 3, 7)
    one.numbers[5] = Numbers(9, 36, 1, [Span(3, 4, 8, 16, 1_700_000_000_000)], 4)
    one.heard[5] = 1_700_000_000_123
    one.archived, one.gap, one.made = 32, 1, 2
    at = MINUTE + 1.0
    one.episodes.tell([Invalid(at, at, 1, "cpu \ud800", RANGE, 1, (Copy(at, float("nan")),))], MINUTE + 30.0)
    ids = np.random.default_rng(1).integers(0, 1 << 64, entities, np.uint64) if entities > 2 else np.array([2, 1])
    one.inventory.see(MINUTE, ids.astype(np.uint64), np.array([[True, False]] * len(ids)), True)
    one.inventory.never(["steal"], MINUTE)
    return one


def test_golden_bytes() -> None:
    data = states.encode(State(MINUTE, (4, 5), (filled().document(),), b"17-3"))
    assert data[0] == states.VERSION == 2
    assert zlib.decompress(data[1:]).hex() == (
        "94ce6553f1289204059198cffffffffffffffffd07810592cf0000018bcfe5687b95092401919503040810cf0000018bcfe5"
        "680004200102919701a9637075201a6438303003cb41d954fc4a400000cb41d954fc4a400000019192cb41d954fc4a400000"
        "cb7ff800000000000092c43001000000000000001655b0011655b001010000000000000002000000000000001655b0011655"
        "b001010000000000000091a5737465616cc40431372d33"
    )


def test_round_trip() -> None:
    one = filled()
    closed, past, (document,), returned = states.decode(
        states.encode(State(MINUTE, (4, 5), (one.document(),), b"17-3"))
    )
    assert (closed, past, returned) == (MINUTE, (4, 5), b"17-3")
    other = ResourceSet(*document[:2])
    other.restore(document)
    assert repr(other.document()) == repr(one.document())
    assert len(other.episodes) == 1
    assert other.inventory.provided(np.array([3, 1], np.uint64), 2).tolist() == [[False, False], [True, False]]


def test_of_none_it_is_empty() -> None:
    assert states.decode(b"") == State()


@pytest.mark.parametrize("data", [b"\x01", b"\x02", b"\x02garbage", b"\x02" + zlib.compress(b"\xc1"), b"{}"])
def test_bytes_that_are_none(data: bytes) -> None:
    with pytest.raises(ArchiveDamaged, match="partition state"):
        states.decode(data)


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = states.encode(State(0, (0, 0), (filled(1000).document(),)))
    assert len(msgspec.msgpack.encode(filled(1000).document())) < 24 * 1000 + 500
    assert len(data) < 12 * 1000 + 500
    monkeypatch.setattr(states, "MOST", 5000)
    with pytest.raises(ArchiveDamaged, match="exceeds"):
        states.decode(data)
