"""Old frames are played back at a pace that the filter sets; fresh ones are never delayed."""

from __future__ import annotations

import time

import pytest

from acquisition.outbox.catch_up import OLD, READING, SLOWEST, START, TARGET, CatchUp
from acquisition.outbox.frames.store import Outbox
from tests.support.fixture_types import MakePipeline
from tests.support.writer_bench import SET, Pipeline


def played(pace: CatchUp, made: float, now: float, seconds: float, step: float = 0.01) -> int:
    """How many frames of one a second, from ``made`` on, are sent in ``seconds``."""
    sent = 0
    end = now + seconds
    while now < end:
        while pace.allows(made + sent, now):
            sent += 1
        assert now < pace.due <= now + 1.0 / pace.speed + 1e-9
        now += step
    return sent


def test_frames_are_played_back_at_the_speed() -> None:
    pace = CatchUp()
    assert 5 * START <= played(pace, 1000.0, 2000.0, 5.0) <= 5 * START + 1
    assert pace.is_active


def acknowledged(pace: CatchUp, *milliseconds: int) -> None:
    for each in milliseconds:
        pace.acknowledge(b"%d-0" % each)


def test_speed_grows_fast_until_delay_then_slowly() -> None:
    pace = CatchUp()
    pace.allows(0.0, 100.0)
    speeds = [pace.speed]
    for _ in range(3):
        acknowledged(pace, 1000, 1100)
        pace.observe(b"1100-0", 100.0)
        speeds.append(pace.speed)
    assert speeds == [START, 1.5 * START, 2.25 * START, 3.375 * START]
    acknowledged(pace, 2000, 2300)
    pace.observe(b"1999-0", 100.0)
    assert pace.speed == pytest.approx(speeds[2])  # the last step was one too many
    pace.observe(b"2300-0", 100.0)
    assert pace.speed == pytest.approx(1.25 * speeds[2])


def test_speed_falls_in_proportion_to_a_delay_beyond_the_target() -> None:
    pace = CatchUp()
    pace.allows(0.0, 100.0)
    for _ in range(20):
        pace.observe(b"1-0", 100.0)
    assert pace.speed == 1000.0
    acknowledged(pace, 1000, 1000 + int(1500 * TARGET))
    pace.observe(b"999-0", 100.0)
    assert 250.0 < pace.speed <= 667.0
    for _ in range(50):
        acknowledged(pace, 1000, 1700)
        pace.observe(b"999-0", 100.0)
    assert pace.speed == SLOWEST > 1.0  # it catches up in any case
    assert not pace.is_paused


def test_nothing_is_sent_while_the_filter_is_far_behind() -> None:
    pace = CatchUp()
    assert pace.allows(0.0, 100.0)
    acknowledged(pace, 1000, 3000)
    readings = []
    for _ in range(6):
        pace.observe(b"999-0", 100.0)
        assert not pace.allows(1.5, 200.0)
        assert pace.due == float("inf")
        readings.append(pace.reading)
    assert readings == [READING, 0.4, 0.8, 1.6, 1.6, 1.6]  # a filter that is down is not asked all the time
    pace.observe(b"3000-0", 300.0)
    assert (pace.is_paused, pace.reading) == (False, READING)
    assert not pace.allows(1.5, 300.0)
    assert pace.allows(1.5, 301.0)


def test_time_in_which_nothing_was_made_is_not_played_back() -> None:
    pace = CatchUp()
    assert pace.allows(0.0, 5000.0)
    assert not pace.allows(3600.0, 5000.0)
    assert pace.due <= 5000.0 + 1.0 / START
    assert pace.allows(3600.0, pace.due)


def test_a_refill_of_an_empty_shard_starts_faster_and_is_more_patient() -> None:
    pace = CatchUp()
    pace.refill()
    assert pace.allows(0.0, 100.0)
    speed = pace.speed
    assert speed > START
    acknowledged(pace, 1000, 1400)
    pace.observe(b"999-0", 100.2)
    assert pace.speed > speed
    pace.end()
    pace.allows(0.0, 100.0)
    acknowledged(pace, 1000, 1400)
    pace.observe(b"999-0", 100.2)
    assert pace.speed < START


def test_the_next_catch_up_starts_anew() -> None:
    pace = CatchUp()
    pace.allows(0.0, 100.0)
    pace.observe(b"2-0", 100.0)
    assert pace.speed > START
    pace.end()
    assert not pace.is_active
    assert pace.allows(50.0, 200.0)
    assert pace.speed == START


class PastClock:
    """CLOCK_MONOTONIC, ``ago`` seconds earlier."""

    ago = 0.0

    def __call__(self) -> float:
        return time.monotonic() - self.ago


def test_backlog_of_a_minute_is_sent_in_order_and_not_at_once(make_pipeline: MakePipeline) -> None:
    clock = PastClock()
    pipeline = make_pipeline(outbox=Outbox(None, clock=clock), position_interval=2.0)
    pipeline.start_filter()
    for second in range(60, 0, -1):
        clock.ago = float(second)
        pipeline.offer()
    clock.ago = 0.0
    window = pipeline.outbox.windows[SET]
    pipeline.turn_until(lambda: window.next > 2)
    began = time.monotonic()
    pipeline.turn_for(0.1)
    assert window.next < 10 + 60 * (time.monotonic() - began - 0.1)  # not all of it
    made = 0
    while not pipeline.is_applied():
        if time.monotonic() > began + made:  # live operation goes on behind it
            made += 1
            pipeline.offer()
        pipeline.turn()
        assert time.monotonic() < began + 30.0
    assert time.monotonic() - began > 0.5
    account = pipeline.assert_everything_applied_once()
    assert (account.refused_frames, account.duplicate_frames) == (0, 0)
    assert min(until_sent(pipeline) for _ in range(3)) < OLD / 4


def until_sent(pipeline: Pipeline) -> float:
    """How long a new frame waits, in seconds."""
    began, window = time.monotonic(), pipeline.outbox.windows[SET]
    pipeline.offer()
    pipeline.turn_until(lambda: window.next > window.last)
    return time.monotonic() - began


def test_paused_playback_resumes_at_any_reading_interval(make_pipeline: MakePipeline) -> None:
    """Readings of a paused playback are up to 1.6 s apart: far longer than ones asked for five times a second."""
    clock = PastClock()
    pipeline = make_pipeline(outbox=Outbox(None, clock=clock), position_interval=0.2)
    for second in range(60, 0, -1):
        clock.ago = float(second)
        pipeline.offer()
    clock.ago = 0.0
    pipeline.turn_for(7.0)  # without a filter: readings grow rare
    pipeline.start_filter()
    pipeline.turn_until(pipeline.is_applied, 20.0)
    pipeline.assert_everything_applied_once()


def test_filter_that_does_not_read_slows_the_playback_down(make_pipeline: MakePipeline) -> None:
    clock = PastClock()
    pipeline = make_pipeline(outbox=Outbox(None, clock=clock), position_interval=2.0)
    for second in range(60, 0, -1):
        clock.ago = float(second)
        pipeline.offer()
    clock.ago = 0.0
    window = pipeline.outbox.windows[SET]
    pipeline.turn_for(2.0)
    assert 2 < window.next < 40  # it pauses: what it has sent is not read
    pipeline.start_filter()
    pipeline.turn_until(pipeline.is_applied, 20.0)
    pipeline.assert_everything_applied_once()
