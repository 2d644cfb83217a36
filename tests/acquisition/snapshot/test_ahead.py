"""Reading ahead: the thread reads where nobody asks, goes on after what cannot be read, and ends when it is told to."""

from __future__ import annotations

import threading

import pytest

from acquisition.errors import ShardError
from acquisition.snapshot.ahead import Ahead
from tests.support.waiting import eventually


class Readings:
    """Counts who read, and fails as long as it is told to."""

    def __init__(self) -> None:
        self.asked = self.prepared = 0
        self.fails = False

    def read(self) -> int:
        self.asked += 1
        if self.fails:
            raise ShardError("no shard answers")
        return self.asked

    def prepare(self) -> None:
        self.prepared += 1
        if self.fails:
            raise ShardError("no shard answers")


def test_the_thread_reads_where_nobody_asks() -> None:
    readings = Readings()
    ahead = Ahead(readings.read, lambda: 0.001, readings.prepare)
    eventually(lambda: readings.prepared > 3)
    assert not readings.asked
    ahead.close()
    before = readings.prepared
    assert ahead.ask() == 1
    assert readings.prepared == before


def test_who_has_just_asked_is_left_alone() -> None:
    readings = Readings()
    ahead = Ahead(readings.read, lambda: 3600.0, readings.prepare)
    eventually(lambda: readings.prepared == 1 or bool(ahead.ask()))
    before = readings.prepared
    for _ in range(100):
        ahead.ask()
    assert readings.prepared == before
    ahead.close()


def test_what_cannot_be_read_is_told_and_tried_again() -> None:
    readings = Readings()
    readings.fails = True
    ahead = Ahead(readings.read, lambda: 0.001, readings.prepare)
    with pytest.raises(ShardError, match="no shard answers"):
        ahead.ask()
    eventually(lambda: readings.prepared > 1)
    readings.fails = False
    before = readings.prepared
    eventually(lambda: readings.prepared > before + 1)
    assert ahead.ask() > 1
    ahead.close()
    assert "reading ahead" not in {thread.name for thread in threading.enumerate()}
