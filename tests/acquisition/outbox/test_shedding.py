"""When a probe sheds: the rule alone, and in a simulated pipeline with faults and with overload."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acquisition.outbox import shedding
from acquisition.outbox.shedding import NORMAL, SHED_AFTER, Congestion, Shedding, advance, behind, is_kept

_STEP = 0.1
_RATE = 10  # frames per second, of one sample each


class Simulation:
    """One host, a shard and a filter that applies ``service(t)`` frames of this host per second; fluid but for frames.

    Readings come every ``interval`` seconds, more often while frames are held or shed.
    """

    def __init__(
        self,
        service: Callable[[float], float],
        fair_share: bool = True,
        doubts: Callable[[float], bool] | None = None,
        interval: float = 2.0,
    ):
        self.interval = interval
        self.service, self.has_fair_share, self.doubts = service, fair_share, doubts or (lambda now: False)
        self.now = 0.0
        self.number = self.shed = self.applied = 0
        self.unsent: deque[tuple[int, float]] = deque()
        self.stream: deque[tuple[int, float, float]] = deque()  # number, made, acknowledged
        self.state = NORMAL
        self.credit = 0.0
        self.due = 0.0
        self.cursor = 0.0
        self.read_applied = 0
        self.acked = 0.0
        self.newest = 0.0  # when the newest applied frame was made
        self.newest_allowed = float("inf")

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end - _STEP / 2:
            self.step()

    def step(self) -> None:
        self.now += _STEP
        self.number += 1
        self.unsent.append((self.number, self.now))
        if not self.state.hold:
            self.send()
        self.credit = min(self.credit + self.service(self.now) * _STEP, 5.0)
        while self.credit >= 1.0 and self.stream:
            self.credit -= 1.0
            _, self.newest, self.cursor = self.stream.popleft()
            self.applied += 1
        if self.now >= self.due:
            self.read()

    def send(self) -> None:
        share = self.state.share
        while self.unsent:
            number, made = self.unsent[0]
            if share < 1.0 and (self.now - made > SHED_AFTER or not is_kept(number, share)):
                self.shed += 1
            elif made > self.newest_allowed:
                break
            else:
                self.acked = self.now
                self.stream.append((number, made, self.now))
            self.unsent.popleft()

    def read(self) -> None:
        if self.doubts(self.now):
            self.state = NORMAL
        oldest = self.stream[0][1] if self.stream else self.unsent[0][1] if self.unsent else self.now
        lag = self.acked - self.cursor if self.stream else 0.0
        service = self.service(self.now)
        fair_share = 0.8 * service if self.has_fair_share and 0.0 < service < _RATE else 0.0
        moved = self.applied != self.read_applied
        self.read_applied = self.applied
        self.state = advance(self.state, Congestion(self.now, self.now - oldest, lag, moved, _RATE, fair_share))
        self.newest_allowed = oldest + self.state.window if oldest < self.now else float("inf")
        self.due = self.now + self.state.reading(self.interval)


@given(
    ratio=st.floats(1.2, 50.0),
    start=st.floats(0.0, 10.0),
    length=st.floats(0.0, 300.0),
    second=st.floats(0.0, 30.0),
)
@settings(deadline=None, max_examples=30)
def test_a_part_that_stands_still_and_catches_up_is_no_overload(ratio, start, length, second):
    """Down, frozen or failing over, once or twice, for however long: everything is kept."""

    def service(now: float) -> float:
        down = start <= now < start + length or start + length + 40.0 <= now < start + length + 40.0 + second
        return 0.0 if down else ratio * _RATE

    simulation = Simulation(service)
    simulation.run(start + length + 120.0)
    assert simulation.shed == 0


@given(ratio=st.floats(0.15, 0.7), fair_share=st.booleans())
@settings(deadline=None, max_examples=20)
def test_excess_is_shed_and_readable_values_stay_fresh(ratio, fair_share):
    simulation = Simulation(lambda now: ratio * _RATE, fair_share)
    simulation.run(60.0)
    shed, applied = simulation.shed, simulation.applied
    assert shed > 0
    worst = 0.0
    for _ in range(600):
        simulation.step()
        worst = max(worst, simulation.now - simulation.newest)
    assert worst < (2.0 if fair_share else 8.0) * SHED_AFTER
    made, taken = 600, simulation.applied - applied
    assert taken > 0.5 * ratio * made  # it sheds what it must and not everything
    assert simulation.shed - shed < made


@given(ratio=st.floats(0.2, 0.7))
@settings(deadline=None, max_examples=10)
def test_everything_is_sent_again_soon_after_the_load_has_fallen(ratio):
    simulation = Simulation(lambda now: (ratio if now < 60.0 else 4.0) * _RATE)
    simulation.run(60.0)
    assert simulation.state.is_active
    simulation.run(20.0)
    assert simulation.state.share == 1.0
    shed = simulation.shed
    simulation.run(60.0)
    assert simulation.shed == shed


@given(interval=st.floats(0.5, 30.0), ratio=st.floats(0.1, 0.8), start=st.floats(1.0, 30.0))
@example(interval=10.0, ratio=0.2, start=6.0)
@settings(deadline=None, max_examples=30)
def test_rare_reader_is_fresh_soon_after_slow_seconds(interval, ratio, start):
    """A window of frames goes with each reading: were these rarer than that, it would fall behind for ever."""
    simulation = Simulation(
        lambda now: (ratio if start < now < start + 4.0 else 3.0) * _RATE, fair_share=False, interval=interval
    )
    simulation.run(start + 4.0 + interval + 15.0)
    assert simulation.shed == 0
    assert simulation.now - simulation.newest < 1.0


def test_a_new_connection_is_a_fault_and_not_overload():
    simulation = Simulation(lambda now: 0.5 * _RATE, doubts=lambda now: True)
    simulation.run(120.0)
    assert simulation.shed == 0


def readings(state: Shedding, seconds: float, **changes: float) -> Shedding:
    """Readings every second of a filter that moves while the age grows by a second per second."""
    for number in range(int(seconds)):
        age = number + 1.0
        state = advance(
            state, Congestion(number + 1.0, age, **{"behind": age, "moved": True, "rate": 100.0, **changes})
        )
    return state


def test_only_hosts_above_fair_share_shed_frames():
    start = advance(NORMAL, Congestion(0.0, 0.0, 0.0, True, 100.0))
    assert readings(start, 2, fair_share=25.0).share == 1.0
    assert readings(start, 3, fair_share=25.0).share == 0.25
    assert readings(start, 10, fair_share=200.0).share == 1.0
    assert 0.0 < readings(start, 11, fair_share=200.0).share < 1.0
    assert 0.0 < readings(start, 11).share < 1.0
    assert readings(start, 3, fair_share=0.001).share == 0.05  # it is to be seen all the same


def test_a_slow_way_to_the_shard_is_a_fault_unless_it_lasts():
    start = advance(NORMAL, Congestion(0.0, 0.0, 0.0, True, 100.0))
    assert readings(start, 60, fair_share=25.0, behind=0.0) == readings(
        start, 60, fair_share=25.0, behind=0.0
    )._replace(share=1.0)
    assert readings(start, 61, behind=0.0).is_active


def test_it_can_be_switched_off():
    state = NORMAL
    for number in range(100):
        state = advance(state, Congestion(float(number), float(number), 50.0, True, 100.0, 1.0), float("inf"))
    assert (state.share, state.hold) == (1.0, False)


@given(st.floats(0.05, 1.0))
def test_what_is_kept_is_evenly_spaced(share):
    kept = [number for number in range(1, 1001) if is_kept(number, share)]
    assert len(kept) == pytest.approx(1000 * share, abs=1.01)
    gaps = {later - earlier for earlier, later in pairwise(kept)}
    assert max(gaps) - min(gaps) <= 1


def test_how_far_a_cursor_is_behind():
    assert behind(b"5000-0", b"3000-7") == 2.0
    assert behind(b"3000-0", b"5000-0") == 0.0
    assert behind(b"", b"5000-0") == behind(b"5000-0", b"") == behind(b"x-0", b"y") == 0.0


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.booleans(), st.floats(0, 1e9), st.floats(0, 1e9))))
def test_the_share_is_always_one_that_can_be_sent(rows):
    state, now = NORMAL, 0.0
    for age, lag, moved, rate, fair_share in rows:
        now += 1.0
        state = advance(state, Congestion(now, age, lag, moved, rate, fair_share))
        assert shedding._LEAST <= state.share <= 1.0
