"""Learned bursts delay an alarm by 12 s at most, and none for which guests wait for 8 s."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.model.derived import WAITING
from acquisition.model.inputs import Bursts
from acquisition.wire.records.inputs import BURST_FIGURES
from filters.decisions.overload_detection import learned
from filters.decisions.overload_detection.contention import RULE
from filters.decisions.picture import CPU, Host
from filters.decisions.verdict import HOT, NOT_HOT, SUSPECT, Outcome, Verdict
from filters.worker.inputs import bursts
from filters.worker.inputs.bursts import Step
from tests.support.pictures import constant, inputs, reading

_ONE = np.ones(1, np.float32)
CALM = 0.6


class Learner:
    """What the filter learns of one host, a sample per second."""

    def __init__(self) -> None:
        self._kept = np.zeros((len(BURST_FIGURES), 1), np.float32)
        self._seen: list[float] = []

    def take(self, second: int, value: float) -> Bursts:
        self._seen = [*self._seen[-7:], value]
        above = np.array([sum(each > 0.9 for each in self._seen)], np.int16)
        x, slot = np.array([value], np.float32), _ONE * bursts.slot_of(second)
        bursts.advance(self._kept, Step(x, ~np.isnan(x), above, 8, np.float32(0.9), _ONE, _ONE, slot))
        opened, _, held, _, since, last, period, regular, *slots = self._kept[:, 0].tolist()
        longest, counts, heights = slots[:6], slots[6:12], slots[12:]
        return Bursts(opened, held, int(sum(counts)), max(longest), max(heights), period, int(regular), since, last)


def verdicts(
    load: Sequence[float], learns: bool = True, waiting: Sequence[float] | None = None, resets: bool = False
) -> Iterator[Verdict]:
    """Second by second, with hysteresis unless it ``resets``."""
    learner, recent, mean, waited, was_hot = Learner(), [CALM] * 30, CALM, 0.0, False
    for second, value in enumerate(load):
        known, recent = learner.take(second, value), [*recent[1:], value]
        mean += (value - mean) * (1.0 - np.exp(-1.0 / 5.0))
        kept = inputs(threshold=0.9, bursts=known if learns else None)
        readings = {CPU: reading(CPU, recent, mean=float(mean), inputs=kept)}
        if waiting is not None:
            waited = waited + 1.0 if waiting[second] > 0.05 else 0.0
            now = inputs(threshold=0.05, time_above_seconds=waited)
            readings[WAITING] = constant(WAITING, waiting[second], inputs=now)
        verdict = RULE.judge(Host("h", "h", readings=readings), RULE.defaults, was_hot)
        was_hot = verdict.outcome is HOT and not resets
        yield verdict


def outcomes(load: Sequence[float], *arguments: object) -> list[Outcome]:
    return [each.outcome for each in verdicts(load, *arguments)]  # type: ignore[arg-type]


def burst(seconds: int, every: int = 120) -> list[float]:
    return [0.95] * seconds + [CALM] * (every - seconds)


def test_host_with_bursts_is_hot_when_it_lasts_longer_than_those() -> None:
    habit = burst(6)
    assert HOT in outcomes(habit)  # nothing is known of it yet
    assert HOT not in outcomes(habit + burst(6) * 5)[len(habit) :]
    after = outcomes(habit + [0.95] * 60)[len(habit) :]
    assert after[0] is SUSPECT
    assert after.index(HOT) == 8  # its ninth second: longer than 6 + 2
    assert set(after[8:]) == {HOT}
    *_, last = verdicts(habit + burst(3))
    assert "longest burst" in [figure.name for figure in last.figures]
    *_, last = verdicts(habit + [0.95] * 20)
    assert last.reason.endswith("its bursts last up to 6 s")


def test_bursts_that_grow_are_hot_once_they_are_overloads() -> None:
    lengths = range(11, 20)
    found = outcomes([value for seconds in lengths for value in burst(seconds, 60) * 3])
    hot = [seconds for place, seconds in enumerate(lengths) if HOT in found[180 * place + 120 : 180 * place + 180]]
    assert hot == [14, 15, 16, 17, 18, 19]


def test_waiting_is_hot_after_eight_seconds_whatever_was_learned() -> None:
    habit = burst(14) * 3
    for load in (0.95, 0.89):
        busy = [*habit, *[load] * 30]
        waiting = [0.0] * len(habit) + [0.2] * 30
        after = outcomes(busy, True, waiting)[len(habit) :]
        assert after.index(HOT) <= 8
        assert set(after[after.index(HOT) :]) == {HOT}


@pytest.mark.parametrize(("seconds", "every"), [(7, 16), (6, 15), (4, 12), (7, 28), (12, 22), (14, 24)])
def test_bursts_that_fill_a_quarter_of_the_time_are_an_overload(seconds: int, every: int) -> None:
    load = burst(seconds, every) * 20
    found = outcomes(load, True, [0.3 if value > CALM else 0.0 for value in load])
    assert HOT in found[-2 * every :]
    assert HOT not in outcomes(burst(6, 30) * 20)[60:]


def test_overload_with_breaks_is_hot_at_any_pace() -> None:
    draw = random.Random(1)
    load = [value for _ in range(80) for value in [0.95] * draw.randint(5, 9) + [CALM] * draw.randint(5, 9)]
    assert outcomes(load, True, [0.3 if value > CALM else 0.0 for value in load]).count(HOT) > 0.1 * len(load)


def test_nightly_job_that_hurts_is_hot_every_night() -> None:
    night = [CALM] * 900 + [0.97] * 60
    found = outcomes(burst(14) * 3 + night * 2)
    for place in (360 + 900, 360 + 960 + 900):
        assert HOT in found[place : place + 17]


def test_periodic_burst_is_expected_at_its_time() -> None:
    known = Bursts(3.0, 0.0, 0, 0.0, 0.0, 5400.0, 3, 5400.0 + 3.0, 6.0)  # the last one lies more than an hour back
    assert learned.is_due(known)
    assert learned.needed(known) == 8.0
    assert not learned.is_due(known._replace(since_seconds=2000.0))
    assert learned.needed(known._replace(since_seconds=2000.0)) is None
    assert learned.needed(known._replace(regular=1)) is None
    assert "next burst in" in [figure.name for figure in learned.figures(known)]


loads = st.lists(
    st.tuples(st.sampled_from([CALM, 0.75, 0.85, 0.91, 0.93, 0.97]), st.integers(1, 20)), min_size=1, max_size=40
)


@settings(max_examples=60, deadline=None)
@given(loads)
def test_learning_delays_by_twelve_seconds_at_most(runs: list[tuple[float, int]]) -> None:
    load = burst(14) * 3 + [value for value, seconds in runs for _ in range(seconds)]
    fresh = outcomes(load, False, None, True)  # what the rule says by itself, without hysteresis
    found = outcomes(load)
    for second in range(len(load) - 13):
        if set(fresh[second : second + 13]) == {HOT}:
            assert HOT in found[second : second + 13]
    assert all(found[at] in (HOT, SUSPECT) for at in range(len(load)) if fresh[at] is HOT)
    assert NOT_HOT in found
