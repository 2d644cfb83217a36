"""When an episode begins, goes on, is split and ends."""

from __future__ import annotations

import math

import msgspec
import pytest

from acquisition.model.codes import RANGE, STUCK
from filters.archive.minutes.episodes import COPIES, Episodes, Invalid, Told
from filters.archive.minutes.values import DAY, Copy

MIDNIGHT = 19_700.0 * DAY


def alone(time: float, entity: int, code: int, value: float) -> Invalid:
    return Invalid(time, time, entity, "cpu", code, 1, (Copy(time, value),))


def samples(*times: float, code: int = RANGE, entity: int = 1) -> list[Invalid]:
    return [alone(time, entity, code, time) for time in times]


def told(*minutes: tuple[float, list[Invalid]]) -> list[Told]:
    """What each of the minutes, by their ends, changes; memory is lost between them."""
    document, found = [], []
    for until, invalid in minutes:
        episodes = Episodes(7, 3)
        episodes.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(document)))
        found.append(episodes.tell(invalid, until))
        document = episodes.document()
    return found


def test_an_episode_goes_on_over_minutes_and_ends_after_sixty_seconds() -> None:
    at = MIDNIGHT + 3600
    first, second, third = told(
        (at + 60, samples(at + 30, at + 31)), (at + 120, samples(at + 85)), (at + 180, []),
    )  # fmt: skip
    assert [(one.start, one.end, one.samples, one.open) for one in first.episodes] == [(at + 30, at + 31, 2, True)]
    assert [(one.start, one.end, one.samples, one.open) for one in second.episodes] == [(at + 30, at + 85, 3, True)]
    assert [(one.start, one.samples, one.open) for one in third.episodes] == [(at + 30, 3, False)]


@pytest.mark.parametrize(
    "last", [samples(MIDNIGHT + 1.0), samples(MIDNIGHT - 5.0, code=STUCK), samples(MIDNIGHT - 10.0 + 61.0)]
)
def test_midnight_another_code_and_a_minute_without_begin_another_one(last: list[Invalid]) -> None:
    (minute,) = told((MIDNIGHT + 52, [*samples(MIDNIGHT - 12.0, MIDNIGHT - 10.0), *last]))
    assert [(one.samples, one.open) for one in minute.episodes] == [(2, False), (1, True)]


def test_copies_are_the_first_raw_values() -> None:
    (minute,) = told((100.0, [*samples(*range(30)), alone(40.0, 2, RANGE, math.nan)]))
    first, second = minute.episodes
    assert (first.samples, first.copies) == (30, tuple(Copy(time, time) for time in range(COPIES)))
    assert math.isnan(second.copies[0].value)
    again = told((100.0, [alone(40.0, 2, RANGE, math.nan)]), (160.0, [alone(90.0, 2, RANGE, 1.0)]))
    assert math.isnan(again[1].episodes[0].copies[0].value)


def test_too_many_are_counted_and_those_that_are_open_go_on() -> None:
    episodes = Episodes(7, 3)
    assert episodes.tell(samples(1.0), 60.0).left_out == 0
    crowd = [one for entity in range(1, 101) for one in samples(61.0, 62.0, entity=entity)]
    found = episodes.tell(crowd, 120.0, most=10)
    assert (len(found.episodes), found.left_out) == (11, 178)


def test_all_end_with_their_set() -> None:
    episodes = Episodes(7, 3)
    episodes.tell(samples(1.0), 60.0)
    assert [one.open for one in episodes.end()] == [False]
    assert not len(episodes)
