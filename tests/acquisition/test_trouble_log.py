"""One line when a trouble has begun, one when it is over, however often it is met meanwhile."""

from __future__ import annotations

import pytest

from acquisition.errors import ConfigError, MovedError, ShardError, TemporaryError
from acquisition.link.resp import error_for
from acquisition.log import SHARDS, TroubleLog


class Heard:
    """A log with a clock of the test's, and what it told."""

    def __init__(self) -> None:
        self.now = 100.0
        self.lines: list[str] = []
        self.log = TroubleLog(self.lines.append, lambda: self.now)

    def fail(self, error: Exception, seconds: float = 5.0) -> None:
        for _ in range(int(seconds / 0.1)):
            self.log.fails(SHARDS, error)
            self.now += 0.1


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_a_trouble_that_lasts_is_one_line_and_its_end_another(heard: Heard) -> None:
    heard.fail(ShardError("shard a cannot be reached"), 30.0)
    heard.fail(ShardError("shard b cannot be reached"), 30.0)
    heard.fail(TemporaryError("CLUSTERDOWN"), 5.0)
    assert heard.lines == ["shard a cannot be reached"]
    assert heard.log.count == 650
    assert heard.log.trouble == "CLUSTERDOWN"
    heard.log.over(SHARDS, "works again")
    assert heard.lines[1:] == ["works again"]
    assert not heard.log.trouble


def test_what_is_over_within_a_second_is_not_told(heard: Heard) -> None:
    heard.fail(ShardError("closed"), 0.9)
    heard.log.over(SHARDS, "works again")
    assert heard.lines == []
    assert heard.log.count == 9


def test_what_another_person_must_mend_is_told_as_well(heard: Heard) -> None:
    heard.fail(ShardError("closed"))
    heard.fail(ConfigError("chmod it"))
    heard.fail(ShardError("closed"))
    assert heard.lines == ["closed", "chmod it"]


def test_flapping_trouble_is_reported_at_most_every_ten_seconds(heard: Heard) -> None:
    for _ in range(20):
        heard.fail(ShardError("closed"), 1.5)
        heard.log.over(SHARDS, "works again")
    assert 2 <= len(heard.lines) <= 8
    assert heard.lines[:2] == ["closed", "works again"]


def test_calm_is_when_nothing_was_met_for_a_while(heard: Heard) -> None:
    assert not heard.log.calm(SHARDS, 0.0)
    heard.fail(ShardError("closed"), 0.5)
    assert not heard.log.calm(SHARDS, 1.0)
    heard.now += 1.0
    assert heard.log.calm(SHARDS, 1.0)


def test_events_have_no_end(heard: Heard) -> None:
    for _ in range(30):
        heard.log.tell("entry 1-1 is none", "magic")
        heard.now += 0.5
    assert heard.lines == ["entry 1-1 is none"] * 2
    assert not heard.log.trouble


@pytest.mark.parametrize("text", ["MOVED 12 127.0.0.1:7000", "ASK 12 127.0.0.1:7000"])
def test_a_redirection_is_an_error_of_its_own(text: str) -> None:
    assert type(error_for(text)) is MovedError
