"""The allowance of the closed loop against a pipeline in simulated time."""

from typing import NamedTuple

import pytest

from experiments.emulation.allowance import FLIGHT_SECONDS, Allowance

ROUND = 0.004  #: seconds in which a generator looks at every host once
READING = 0.1
MOST = 60
WARMUP, MEASURED = 4.0, 6.0


class Seen(NamedTuple):
    """What a filter found, of the last seconds: frames in all; of each commit, how old the newest and the oldest
    frame in it were."""

    frames: int
    newest: list[float]
    oldest: list[float]


def simulate(cycle, capacity=10**9, rule=None, reading=READING):
    """One host whose filter commits every ``cycle`` seconds, ``capacity`` frames at most."""
    allowance = rule or Allowance(MOST)
    queue, made, smoothed, known = [], 0, 0, 0
    next_commit, next_reading, now = cycle, reading, 0.0
    seen = Seen(0, [], [])
    while now < WARMUP + MEASURED:
        if now >= next_commit:
            next_commit += cycle
            taken, queue = queue[:capacity], queue[capacity:]
            smoothed += len(taken)
            if taken and now > WARMUP:
                seen = seen._replace(frames=seen.frames + len(taken))
                seen.newest.append(now - taken[-1])
                seen.oldest.append(now - taken[0])
        if now >= next_reading:
            next_reading += reading
            known = smoothed
        if allowance.allows(made, made - known, now):
            allowance.spend(now)
            queue.append(now)
            made += 1
        now += ROUND
    return seen


def test_host_never_waits_while_pipeline_keeps_up():
    seen = simulate(cycle=0.1)
    assert max(seen.newest) <= 0.01
    assert seen.frames == pytest.approx(MEASURED / ROUND, rel=0.02)


@pytest.mark.parametrize("capacity", [1, 2, 5, 10])
def test_what_waits_for_a_slow_pipeline_is_bounded_by_time(capacity):
    seen = simulate(cycle=0.1, capacity=capacity)
    assert seen.frames == pytest.approx(MEASURED / 0.1 * capacity, rel=0.1)  # and nothing lies idle
    longest = 4 * 0.1 / capacity  # what may always be under way
    assert max(seen.oldest) <= max(FLIGHT_SECONDS, longest) + READING


@pytest.mark.parametrize(("cycle", "reading"), [(0.2, 0.1), (0.4, 0.1), (0.1, 0.25), (0.2, 0.25), (1.0, 0.25)])
def test_a_pipeline_of_long_turns_and_rare_readings_is_kept_busy(cycle, reading):
    """None settles on the few frames that are under way from the start: the window follows the turns."""
    allowance = Allowance(MOST)
    seen = simulate(cycle, rule=allowance, reading=reading)
    assert allowance.window == MOST
    assert seen.frames > 0.7 * MEASURED * min(1.0 / ROUND, MOST / (cycle + reading))
