"""Deadlines: on the wall clock's grid, hashed phase, no drift, counted misses, stepped clocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acquisition.model.identity import host_id
from acquisition.model.ticks import tick_of
from probes.sampling.schedule import MARGIN, Schedule, next_deadline, phase_of


@given(st.integers(0, 2**64 - 1), st.floats(0.01, 3600))
def test_the_phase_lies_within_the_interval(host: int, interval: float) -> None:
    assert MARGIN * interval <= phase_of(host, interval) <= (1 - MARGIN) * interval


def test_phases_of_many_hosts_spread_over_the_interval() -> None:
    tenths = [0] * 10
    for number in range(2000):
        tenths[int(phase_of(host_id(f"host{number}"), 1.0) * 10)] += 1
    assert all(count > 100 for count in tenths[1:9])
    assert min(tenths) > 50  # the margins take half of the first and last


@given(st.floats(1.7e9, 1.9e9), st.sampled_from([0.1, 0.5, 1.0, 5.0, 60.0]), st.floats(0.05, 0.95))
def test_the_next_deadline_is_in_the_next_interval_at_most(wall: float, interval: float, part: float) -> None:
    deadline = next_deadline(wall, 100.0, interval, part * interval)
    assert 100.0 <= deadline <= 100.0 + interval + 1e-6
    at = wall + deadline - 100.0
    assert abs((at - part * interval) / interval - round((at - part * interval) / interval)) < 1e-5


def test_lateness_does_not_add_up() -> None:
    wall, offset = 1_792_000_000.3, 1_792_000_000.0 - 500.0
    schedule = Schedule(1.0, 0.5, wall, wall - offset)
    first = schedule.deadline
    for number in range(1000):
        now = schedule.deadline + 0.004  # each tick is served 4 ms late
        schedule.begin(now + offset, now)
        assert abs(schedule.deadline - (first + number + 1)) < 1e-3
    assert schedule.missed == 0
    assert abs(schedule.late_seconds - 4.0) < 0.1


def test_ticks_are_numbered_by_the_wall_clock() -> None:
    schedule = Schedule(1.0, 0.5, 1_792_000_000.0, 0.0)
    assert schedule.begin(1_792_000_000.502, 0.502) == tick_of(1_792_000_000.502, 1.0) == 1_792_000_000


def test_missed_ticks_are_counted() -> None:
    schedule = Schedule(1.0, 0.5, 1000.0, 0.0)
    schedule.begin(1000.5, 0.5)
    schedule.begin(1004.6, 4.6)  # 1.5, 2.5, 3.5 never came
    assert schedule.missed == 3
    assert abs(schedule.deadline - 5.5) < 1e-9


def test_a_tick_has_one_reading_however_late_it_was() -> None:
    schedule = Schedule(1.0, 0.5, 1000.0, 0.0)
    schedule.begin(1000.5, 0.5)
    assert schedule.begin(1004.497, 4.497) == 1004  # stopped meanwhile; its own moment is 3 ms later
    assert schedule.missed == 3
    assert abs(schedule.deadline - 5.5) < 1e-9
    assert schedule.begin(1005.5, 5.5) == 1005
    assert schedule.missed == 3


def test_wall_clock_step_back_of_an_hour_misses_no_tick() -> None:
    schedule = Schedule(1.0, 0.5, 10_000.0, 0.0)
    assert schedule.begin(10_000.5, 0.5) == 10_000
    assert schedule.begin(6_401.7, 1.5) == 6_401
    assert schedule.missed == 0
    assert 1.5 < schedule.deadline <= 2.5 + 1e-9


def test_an_interval_of_a_tenth_is_not_blurred_by_floats() -> None:
    wall = 1_792_000_000.0
    schedule = Schedule(0.1, 0.05, wall, 0.0)
    ticks = []
    for _ in range(100):
        now = schedule.deadline + 0.0001
        ticks.append(schedule.begin(wall + now, now))
    assert ticks == list(range(ticks[0], ticks[0] + 100))


def test_the_middle_of_an_interval_is_taken_once_and_not_near_its_end() -> None:
    schedule = Schedule(1.0, 0.5, 1000.0, 0.0)
    assert not schedule.take_middle(0.4)
    schedule.begin(1000.5, 0.5)
    assert [schedule.take_middle(moment) for moment in (0.9, 1.0, 1.1)] == [False, True, False]
    schedule.begin(1001.5, 1.5)
    assert not schedule.take_middle(2.3)
    short = Schedule(0.1, 0.05, 1000.0, 0.0)
    short.begin(1000.05, 0.05)
    assert not short.take_middle(0.1)
