"""Tick arithmetic: writers and readers must agree, whatever the interval and the moment."""

from __future__ import annotations

import struct

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from acquisition.model.ticks import coherent_tick, exact_interval, slot_of, tick_of, usable_grace

INTERVALS = st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 1.5, 2.0, 5.0, 10.0, 60.0, 86400.0])
MOMENTS = st.floats(0, 4e9)
GRACES = st.floats(0, 100)


def on_the_wire(interval: float) -> float:
    (rounded,) = struct.unpack("<f", struct.pack("<f", interval))
    return float(rounded)


@given(st.integers(1, 999_999), st.integers(-2, 3))
def test_an_interval_of_six_digits_survives_float32(digits: int, exponent: int) -> None:
    interval = float(f"{digits}e{exponent - 3}")
    assert exact_interval(on_the_wire(interval)) == interval


@given(MOMENTS, INTERVALS)
def test_writer_and_reader_number_alike(wall: float, interval: float) -> None:
    assert tick_of(wall, on_the_wire(interval)) == tick_of(wall, interval)


@given(MOMENTS, INTERVALS, GRACES)
def test_the_coherent_tick_is_the_newest_that_is_over(now: float, interval: float, grace: float) -> None:
    tick = coherent_tick(now, interval, grace)
    slack = 1e-6 * interval + 1e-6  # float64 of seconds since 1970
    assert (tick + 1) * interval + grace <= now + slack
    assert (tick + 2) * interval + grace > now - slack


@given(MOMENTS, INTERVALS, GRACES, st.integers(2, 50))
def test_the_coherent_tick_is_still_kept(now: float, interval: float, grace: float, keep: int) -> None:
    """Even when a host in step has written the tick that is being filled."""
    wanted = coherent_tick(now, interval, usable_grace(grace, interval, keep))
    newest = tick_of(now, interval)
    assume(abs(now / interval - round(now / interval)) > 1e-4)  # at a boundary rounding decides
    assert newest - keep < wanted < newest


@given(st.integers(-(2**62), 2**62), st.integers(1, 1000))
def test_neighbouring_ticks_take_different_slots(tick: int, keep: int) -> None:
    slots = {slot_of(tick + i, keep) for i in range(keep)}
    assert slots == set(range(keep))


def test_by_hand() -> None:
    assert coherent_tick(100.4, 1.0, 0.5) == 98
    assert coherent_tick(100.5, 1.0, 0.5) == 99
    assert coherent_tick(100.5, 5.0, 0.5) == 19
    assert usable_grace(0.5, 0.1, 3) == pytest.approx(0.1)
    assert usable_grace(0.5, 1.0, 3) == 0.5
    assert usable_grace(0.5, 1.0, 1) == 0.0
