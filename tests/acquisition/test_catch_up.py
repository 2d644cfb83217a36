"""Old frames are played back at a pace that the filter sets; fresh ones are never delayed."""

from __future__ import annotations

import time
from collections.abc import Callable

from writer_bench import SET, Pipeline

from acquisition.outbox.catch_up import OLD, READING, SLOWEST, START, CatchUp
from acquisition.outbox.store import Outbox

MakePipeline = Callable[..., Pipeline]


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


def test_speed_follows_what_the_filter_has_read() -> None:
    pace = CatchUp()
    pace.allows(0.0, 100.0)
    pace.observe(b"1-0", has_read=False)  # nothing was to be read yet
    assert (pace.speed, pace.mark) == (START, b"1-0")
    pace.observe(b"2-0", has_read=True)
    assert pace.speed > START
    for _ in range(50):
        pace.observe(b"3-0", has_read=True)
    assert pace.speed == 1000.0
    pace.observe(b"4-0", has_read=False)
    assert START < pace.speed < 500.0  # of the slow start, the last two steps are taken back
    speed = pace.speed
    pace.observe(b"5-0", has_read=True)
    assert pace.speed == speed
    pace.observe(b"6-0", has_read=True)
    assert pace.speed == 1.25 * speed
    for _ in range(50):
        pace.observe(b"7-0", has_read=False)
        pace.observe(b"8-0", has_read=True)
    assert pace.speed == SLOWEST > 1.0  # it catches up in any case


def test_nothing_is_sent_while_the_filter_has_not_read_what_it_has() -> None:
    pace = CatchUp()
    assert pace.allows(0.0, 100.0)
    pace.observe(b"1-0", has_read=False)
    readings = []
    for _ in range(8):
        pace.observe(b"2-0", has_read=False)
        assert not pace.allows(1.0, 200.0)
        assert (pace.mark, pace.due) == (b"1-0", float("inf"))
        readings.append(pace.reading)
    assert readings == [READING, 0.4, 0.8, *[1.6] * 5]  # a filter that is down is not asked all the time
    pace.observe(b"2-0", has_read=True)
    assert (pace.mark, pace.reading) == (b"2-0", READING)
    assert not pace.allows(1.0, 200.0)
    assert pace.allows(1.0, 201.0)


def test_time_in_which_nothing_was_made_is_not_played_back() -> None:
    pace = CatchUp()
    assert pace.allows(0.0, 5000.0)
    assert not pace.allows(3600.0, 5000.0)
    assert pace.due <= 5000.0 + 1.0 / START
    assert pace.allows(3600.0, pace.due)


def test_the_next_catch_up_starts_anew() -> None:
    pace = CatchUp()
    pace.allows(0.0, 100.0)
    pace.observe(b"1-0", has_read=True)
    pace.observe(b"2-0", has_read=True)
    pace.end()
    assert not pace.is_active
    assert pace.allows(50.0, 200.0)
    assert (pace.speed, pace.mark) == (START, b"")


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
    assert window.next < 10  # not all of it
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
    began = time.monotonic()
    pipeline.offer()
    pipeline.turn_until(lambda: window.next > window.last)
    assert time.monotonic() - began < OLD / 4


def test_filter_that_does_not_read_slows_the_playback_down(make_pipeline: MakePipeline) -> None:
    clock = PastClock()
    pipeline = make_pipeline(outbox=Outbox(None, clock=clock), position_interval=2.0)
    for second in range(60, 0, -1):
        clock.ago = float(second)
        pipeline.offer()
    clock.ago = 0.0
    window = pipeline.outbox.windows[SET]
    pipeline.turn_for(2.0)
    assert START < window.next < START + 2 * START + 2  # nothing has said yet that it may be faster
    pipeline.start_filter()
    pipeline.turn_until(pipeline.is_applied, 20.0)
    pipeline.assert_everything_applied_once()
