"""From what a reader knows to the state of every host: down is said only where the pipeline would have shown it."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import pytest

from acquisition.snapshot.values import states
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.states import CURRENT, DOWN, LATE, UNKNOWN
from acquisition.snapshot.visibility import causes
from acquisition.snapshot.visibility.causes import PartitionVisibility, Visibility
from acquisition.wire.position import ENDED, Position

NOW = 1000.0
DOWN_AFTER = 10.0
SEEN = PartitionVisibility(held=True, waiting=0.0, committed=995.0)
ONE_SHARD = {"shards": ["a:1"], "partitions": {0: SEEN}}


def block(host: int, silent: float, flags: int = 0, interval: float = 1.0) -> Block:
    """A resource set whose newest tick came ``silent`` seconds ago."""
    made = Block(host, 1, Position(1, 5, 5, NOW - silent, interval, flags))
    made.state = LATE if silent > 1.5 * interval else CURRENT
    return made


def look(silent: list[float], **known: Any) -> list[Block]:
    """Hosts that have been silent for so long, in one partition of one shard unless ``known`` says otherwise."""
    blocks = [block(number, seconds) for number, seconds in enumerate(silent)]
    causes.look(blocks, Visibility(**{**ONE_SHARD, **known, "grace": 0.5}), NOW, DOWN_AFTER)
    return blocks


def told(blocks: list[Block]) -> list[tuple[str, str]]:
    return [(each.state, each.cause) for each in blocks]


def test_one_that_is_silent_among_others_is_late_and_then_down() -> None:
    assert told(look([9.0, 0.5, 0.5, 0.5]))[0] == (LATE, "")
    assert told(look([11.0, 0.5, 0.5, 0.5])) == [(DOWN, states.SILENT), *[(CURRENT, "")] * 3]
    assert look([11.0, 0.5, 0.5, 0.5])[0].since == NOW - 11.0


def test_silence_that_nobody_has_asked_about_is_not_long_enough() -> None:
    """Ten seconds were over while a reader asked: whether probes were heard before, it has not asked."""
    found = look([10.1, 0.5, 0.5, 0.5], asked=NOW - 0.2)
    assert told(found) == [(LATE, ""), *[(CURRENT, "")] * 3]
    assert found[0].age_seconds == pytest.approx(10.1)
    assert told(look([10.3, 0.5, 0.5, 0.5], asked=NOW - 0.2))[0] == (DOWN, states.SILENT)


@pytest.mark.parametrize(
    "silent",
    [[11.0], [11.0, 11.0], [11.0, 10.5, 9.5, 9.0], [11.0] * 3 + [0.5] * 3],
    ids=["alone", "both", "all within moments", "half of them"],
)
def test_silence_of_most_is_no_death(silent: list[float]) -> None:
    found = told(look(silent))
    assert found[0] == (UNKNOWN, states.SILENCE)
    assert (DOWN, states.SILENT) not in found


def test_those_that_fell_silent_long_before_are_no_neighbours() -> None:
    assert told(look([11.0, 0.5, *[500.0] * 9]))[0] == (DOWN, states.SILENT)


@pytest.mark.parametrize(
    ("partition", "cause"),
    [
        (None, states.SHARD),
        (SEEN._replace(held=False), states.UNHELD),
        (SEEN._replace(full=True, waiting=1.6), states.FULL),
        (SEEN._replace(waiting=1.6), states.UNCOMMITTED),
    ],
)
def test_whoever_cannot_see_calls_nobody_down(partition: PartitionVisibility | None, cause: str) -> None:
    found = look([60.0, 2.0, 0.5, 0.5], partitions={0: partition})
    assert told(found) == [(UNKNOWN, cause), (UNKNOWN, cause), (CURRENT, ""), (CURRENT, "")]
    assert not any(each.unheard for each in found)
    errors = causes.errors(found)
    assert ([error.split(" ")[0] for error in errors] == ["2"]) == (cause != states.SHARD)


def test_entries_may_wait_for_an_interval_and_the_grace_time() -> None:
    assert told(look([2.0, 0.5, 0.5], partitions={0: SEEN._replace(waiting=1.4)}))[0] == (LATE, "")


def test_neighbours_are_those_of_the_same_shard() -> None:
    """Links break shard by shard: half of the hosts are silent, all of them of one shard."""
    blocks = [block(number, 0.5 if number % 2 else 11.0) for number in range(40)]
    causes.look(blocks, Visibility({0: SEEN}, ["a:1", "b:1"], grace=0.5), NOW, DOWN_AFTER)
    assert {(each.state, each.cause) for each in blocks} == {(CURRENT, ""), (UNKNOWN, states.SILENCE)}


def test_a_probe_that_said_goodbye_is_not_down() -> None:
    blocks = [block(0, 11.0, ENDED), *(block(number, 0.5) for number in range(1, 5))]
    causes.look(blocks, Visibility(**ONE_SHARD), NOW, DOWN_AFTER)
    assert told(blocks)[0] == (UNKNOWN, states.GOODBYE)
    assert causes.errors(blocks) == []


def test_patience_begins_anew_when_a_host_can_be_seen_again() -> None:
    assert told(look([60.0, 0.5, 0.5, 0.5], excused={0: NOW - 3.0}))[0] == (LATE, "")
    assert told(look([60.0, 0.5, 0.5, 0.5], excused={0: NOW - 11.0}))[0] == (DOWN, states.SILENT)


def test_a_reader_that_has_just_begun_needs_a_witness() -> None:
    assert told(look([60.0, 0.5, 0.5, 0.5], trusted=frozenset()))[0] == (UNKNOWN, states.SILENCE)
    assert told(look([60.0, 0.5, 0.5, 0.5], trusted=frozenset(["a:1"])))[0] == (DOWN, states.SILENT)


def _of_two_shards(own: list[float], others: list[float], **known: Any) -> tuple[str, str]:
    """What is told of the first host, whose shard is that of ``own``."""
    silent = [each for pair in zip_longest(own, others) for each in pair]
    blocks = [block(number, seconds) for number, seconds in enumerate(silent) if seconds is not None]
    causes.look(blocks, Visibility({0: SEEN}, ["a:1", "b:1"], grace=0.5, **known), NOW, DOWN_AFTER)
    return told(blocks)[0]


@pytest.mark.parametrize(
    ("own", "cause"),
    [
        ([11.0], states.SILENT),
        ([11.0, 11.0], states.SILENCE),
        ([11.0] * 3, states.SILENCE),
        ([11.0, 0.5], states.SILENT),
    ],
    ids=["alone", "both", "all three", "one of two"],
)
def test_few_hosts_of_a_shard_are_neighbours_of_each_other_first(own: list[float], cause: str) -> None:
    """Their links break together as well, while those to another shard with many hosts do not."""
    assert _of_two_shards(own, [0.5] * 20)[1] == cause


def test_one_alone_on_its_shard_needs_witnesses_of_all_others() -> None:
    """A new reader: one shard was not heard for a while, for whatever reason; so may have been the silent host's."""
    assert _of_two_shards([60.0], [0.5] * 5, trusted=frozenset(["b:1"]))[1] == states.SILENT
    assert _of_two_shards([60.0, 0.5], [0.5] * 5, trusted=frozenset(["b:1"]))[1] == states.SILENCE
    assert _of_two_shards([60.0, 0.5], [0.5] * 5, trusted=frozenset(["a:1", "b:1"]))[1] == states.SILENT


def test_blindness_names_the_causes() -> None:
    found = look([60.0, 60.0], partitions={0: SEEN._replace(held=False)})
    assert causes.blindness(found) == (
        "no host is visible since 00:16:35Z; 2 of 2: no filter worker holds its partition"
    )
    assert causes.blindness(look([2.0, 2.0])) == "no host is visible since 00:16:38Z; 2 of 2: late"
    assert causes.blindness(look([60.0, 2.0])).startswith("no host is visible since 00:16:38Z; ")
    assert causes.blindness(look([2.0]), ["the clock"]).endswith("late; the clock")
    assert causes.blindness(look([2.0, 0.5])) == ""
    assert causes.blindness([]) == ""


def test_a_long_interval_has_a_long_patience() -> None:
    blocks = [block(0, 100.0, interval=60.0), *(block(number, 0.5) for number in range(1, 5))]
    causes.look(blocks, Visibility(**ONE_SHARD), NOW, DOWN_AFTER)
    assert blocks[0].state == LATE


def test_one_whose_probe_says_that_it_is_refused_is_not_down() -> None:
    found = look([60.0, 60.0, *[0.5] * 6], refused=frozenset({0}))
    assert told(found)[:2] == [(UNKNOWN, states.REFUSED), (DOWN, states.SILENT)]
    assert "signature" in states.CAUSES[states.REFUSED]
