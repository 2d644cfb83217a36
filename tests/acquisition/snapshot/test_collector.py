"""Collections wait for the end of a reading, and come rarely where a program wants it so."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from acquisition.errors import ShardError
from acquisition.snapshot.collector import collect_rarely
from acquisition.snapshot.reader import paused


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    gc.enable()
    gc.set_threshold(700, 10, 10)  # Python's own, whatever ran in this process before
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def collections() -> int:
    return sum(each["collections"] for each in gc.get_stats())


def reading() -> list[list[int]]:
    with paused():
        assert not gc.isenabled()
        return [[number] for number in range(5000)]


def test_collection_follows_reading_only_if_readings_are_frequent() -> None:
    before = collections()
    kept = [reading(), [[number] for number in range(1000)]]  # more than lists of before that are kept for reuse
    assert collections() > before
    collect_rarely()
    assert gc.get_freeze_count() > len(kept[0])
    before = collections()
    for _ in range(50):
        kept[0] = reading()
    assert collections() == before
    assert gc.isenabled()


def test_who_has_turned_collections_off_finds_them_off() -> None:
    gc.disable()
    reading()
    assert not gc.isenabled()


def test_a_block_that_began_while_another_one_ended_leaves_them_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked() -> bool:
        """Collections are off as it looks, and on again by the time it hears so."""
        gc.enable()
        return False

    monkeypatch.setattr(gc, "isenabled", looked)
    with paused():
        pass
    monkeypatch.undo()
    assert gc.isenabled()


def test_collections_go_on_after_a_reading_that_failed() -> None:
    assert gc.isenabled()
    with pytest.raises(ShardError):
        _fail()
    assert gc.isenabled()


@paused()
def _fail() -> None:
    assert not gc.isenabled()
    raise ShardError("no")
