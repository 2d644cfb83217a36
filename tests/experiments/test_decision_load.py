"""Synthetic load is what the scenario says, and the truth about it is exact."""

import numpy as np
import pytest

from experiments.decisions.detection import observe
from experiments.decisions.noise import Event, profile
from experiments.decisions.synthetic import SCENARIOS, Size, build
from experiments.decisions.truth import OVERLOADED, judge, overloads

SMALL = Size(4, 3, 1800)


def test_noise_scenario_has_sixty_percent_load_with_spikes():
    load = build("noise", 101, Size(20, 5, 3600))
    series = observe(load)
    assert series.level == pytest.approx(np.full((3600, 20), 0.6), abs=1e-5)
    assert np.median(series.used) == pytest.approx(0.6, abs=0.005)
    full = series.used >= 0.9999
    assert 5 <= full.sum() / 20 <= 40
    assert not overloads(series.level)


def test_the_onset_of_a_step_is_known_within_its_second():
    level = 0.6 + np.stack([profile(Event(0, at, 0.0, 60.0, 0.0, 0.35), 120) for at in (20.0, 20.1, 20.3, 20.95)], 1)
    assert [round(each.start, 2) for each in overloads(level.astype(np.float32))] == [20.0, 20.1, 20.3, 20.95]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_is_a_load(name):
    first, again, other = (build(name, seed, SMALL) for seed in (101, 101, 102))
    assert np.array_equal(first.demand, again.demand)
    assert np.array_equal(first.valid, again.valid)
    assert not np.array_equal(first.demand, other.demand)
    assert first.demand.shape == (1800, 12)
    assert bool(overloads(observe(first).level)) == (name != "noise") or name == "bursts"


def hot(ticks, *spans):
    flags = np.zeros((ticks, 1), bool)
    for first, after in spans:
        flags[first:after] = True
    return flags


def test_what_alarms_are_worth():
    level = np.full((200, 1), 0.6, np.float32)
    level[100:150] = 0.95
    alarm_in_time = judge(hot(200, (103, 150)), level)
    assert list(alarm_in_time.delays) == [4.0]  # tick 103 is sampled at 104
    assert (alarm_in_time.false_alarms, alarm_in_time.missed, alarm_in_time.alarms) == (0, 0, 1)
    false = judge(hot(200, (20, 25), (155, 160), (170, 171)), level)
    assert (false.false_alarms, false.missed, false.alarms) == (2, 1, 3)  # at 155 it was just over: late, not false
    assert list(judge(hot(200, (95, 150)), level).delays) == [0.0]  # by luck, and a false alarm
    assert judge(hot(200, (95, 150)), level).false_alarms == 1


def test_an_alarm_while_the_load_rises_is_early_and_not_false():
    level = np.interp(np.arange(200), [0, 50, 100, 200], [0.6, 0.6, 1.0, 1.0]).astype(np.float32)[:, None]
    crossed = int(np.flatnonzero(level[:, 0] >= OVERLOADED)[0])
    assert judge(hot(200, (60, 200)), level).false_alarms == 0
    assert list(judge(hot(200, (60, 200)), level).delays) == [0.0]
    assert list(judge(hot(200, (crossed + 5, 200)), level).delays) == [6.0]
    assert judge(hot(200, (30, 40)), level).false_alarms == 1


def test_less_than_ten_seconds_are_no_overload():
    level = np.full((100, 1), 0.6, np.float32)
    level[50:59] = 1.0
    assert not overloads(level)
    assert judge(hot(100, (52, 55)), level).false_alarms == 0  # it was no lie either
