"""How long a worker lets frames gather."""

import pytest

from filters.worker.loop.channel import Arrivals
from filters.worker.loop.pace import Pace

LONGEST = 0.1


def arrivals(per_second, seconds=3.0, read_every=0.0):
    """Of a partition whose frames come evenly, each read when it comes, or those of ``read_every`` seconds together."""
    found, now, read = Arrivals(0.0), 0.0, 0.0
    frames = 0
    while now < seconds:
        now += 1.0 / per_second
        frames += 1
        if now - read >= read_every:
            found.note(frames, now)
            frames, read = 0, now
    return found


def test_a_worker_with_time_to_spare_does_not_linger():
    pace = Pace(LONGEST)
    assert pace.linger == 0.0
    for _ in range(100):
        pace.note_turn(0.05, 0.0)
    assert pace.linger == pytest.approx(LONGEST)


@pytest.mark.parametrize(("busy", "share"), [(0.09, 0.0), (0.1, 0.0), (0.125, 0.5), (0.15, 1.0), (0.3, 1.0)])
def test_a_sixth_of_a_core_is_enough_to_linger_fully(busy, share):
    pace = Pace(LONGEST)
    for _ in range(1000):
        pace.note_turn(0.05, 0.05 * (1.0 - busy))
    assert pace.linger == pytest.approx(share * LONGEST, abs=1e-6)


@pytest.mark.parametrize("read_every", [0.0, 0.07])
@pytest.mark.parametrize("per_second", [1, 16, 150, 2000])
def test_the_rate_is_found_however_reads_divide_it(per_second, read_every):
    assert arrivals(per_second, read_every=read_every).per_second == pytest.approx(per_second, rel=0.25)


def test_who_would_gather_nothing_does_not_linger():
    assert arrivals(16).worth(0.07) == 0.0
    assert arrivals(1).worth(LONGEST) == 0.0


def test_who_gathers_lingers_as_long_as_was_asked():
    assert arrivals(150).worth(LONGEST) == LONGEST
    assert arrivals(150, read_every=LONGEST).worth(LONGEST) == LONGEST


def test_a_partition_that_fell_silent_has_no_rate():
    found = arrivals(150)
    found.note(0, 4.0)
    assert found.per_second == pytest.approx(0.0, abs=1.0)


def test_two_reads_at_one_moment_are_no_rate():
    found = Arrivals(1.0)
    found.note(5, 1.0)
    assert found.per_second == 0.0
