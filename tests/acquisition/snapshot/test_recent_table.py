"""Recent values from the ring: averages computed again as the filter computed them, newcomers, gaps, damage."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from acquisition.model import codes
from acquisition.snapshot.values.recent import RecentTable, recent_of
from acquisition.wire.records.recent import GONE
from tests.support.sections import ring

TAU = 5.0
Sample = tuple[int, float, int]


def ema(samples: Sequence[Sample]) -> dict[int, float]:
    """The definition: mean += (1 - exp(-elapsed / tau)) (raw - mean), elapsed since the last valid sample."""
    found, mean, last = {}, math.nan, 0
    for step, raw, code in samples:
        if code & codes.CODE_MASK == codes.VALID:
            mean = raw if math.isnan(mean) else mean - math.expm1(-(step - last) / TAU) * (raw - mean)
            last = step
        found[step] = mean
    return found


def series(first: int, last: int, seed: int = 1) -> list[Sample]:
    """A value per step, some of them not valid, some steps that never came."""
    chance = np.random.default_rng(seed)
    made = [(step, float(np.float32(chance.random())), int(chance.choice([0, 0, 0, 0x80, codes.RANGE])))
            for step in range(first, last + 1) if step == first or chance.random() < 0.9]  # fmt: skip
    return [(*made[0][:2], 0), *made[1:]]


def table(
    samples: Sequence[Sample], seeds: Sequence[int], slots: Sequence[tuple[int, int]] = ((11, 1),)
) -> RecentTable:
    means = ema(samples)
    held = {step: [means[step]] for step in seeds if step in means}
    found = recent_of(ring(("cpu",), slots, samples[-120:], seeds=held, tau=TAU))
    assert found is not None
    return found


def test_averages_are_those_of_the_filter() -> None:
    samples = series(1, 100)
    want = ema(samples)
    found = table(samples, [1, 32, 64, 96]).series(11, "cpu")
    assert [(one.raw, one.code) for one in found] == [
        (raw if code & codes.CODE_MASK == codes.VALID else None, code) for _, raw, code in samples
    ]
    assert [one.smoothed for one in found] == pytest.approx([want[step] for step, _, _ in samples], rel=1e-5)


@pytest.mark.parametrize("last", [121, 130, 160, 191, 192, 193, 1000])
def test_every_row_of_a_ring_that_has_come_round_has_an_average(last: int) -> None:
    samples = series(1, last, seed=last)
    want = ema(samples)
    found = table(samples, [step for step in range(32, last + 1, 32) if step > last - 160])
    shown = {step: mean for step, _, mean in zip(*found.valid_values(11, "cpu"), strict=True)}
    assert min(shown) < last - 110
    assert list(shown.values()) == pytest.approx([want[step] for step in shown], rel=1e-3)


def test_where_the_way_back_would_magnify_rounding_no_average_is_told() -> None:
    samples = [(step, 1.0 + step % 2, 0) for step in range(1, 101)]
    held = recent_of(ring(("cpu",), [(11, 0)], samples, seeds={64: [1.5]}, tau=0.5))
    assert held is not None
    found = {step: mean for step, _, mean in zip(*held.valid_values(11, "cpu"), strict=True)}
    assert math.isnan(found[1])
    assert not math.isnan(found[63])
    assert next(one.smoothed for one in held.series(11, "cpu")) is None


def test_new_or_returning_entity_starts_at_first_valid_value() -> None:
    samples = [(1, 0.5, 0), (2, 0.5, 0), (3, 9.0, GONE), (4, 9.0, codes.RANGE), (5, 1.0, 0), (6, 1.0, 0)]
    found = recent_of(ring(("cpu",), [(11, 2)], samples))
    assert found is not None
    rows = found.series(11, "cpu")
    assert [(one.raw, one.smoothed) for one in rows] == [(0.5, 0.5), (None, None), (1.0, 1.0), (1.0, 1.0)]
    assert [one.tick for one in rows] == [1_000_002, 1_000_004, 1_000_005, 1_000_006]
    assert found.valid_values(11, "cpu", 5, 5) == ([5], [1.0], [1.0])
    assert found.series(0, "cpu") == found.series(12, "cpu") == found.series(11, "memory") == []
    assert (len(found), found.metrics) == (6, ("cpu",))


def test_what_is_none() -> None:
    sound = ring(("cpu",), [(11, 1)], [(1, 0.5, 0)])
    assert recent_of(sound) is not None
    for none in (None, b"", sound[:-1], b"?" + sound[1:], ring(("cpu",), [(11, 1)], [])):
        assert recent_of(none) is None


def test_clocks_that_make_no_sense_never_crash() -> None:
    data = bytearray(ring(("cpu",), [(11, 1)], [(1, 0.5, 0), (2, 1.0, 0)], seeds={1: [0.5]}))
    at = data.rindex(np.float64(1_000_002.5).tobytes())
    for wall, monotonic in ((math.nan, math.inf), (math.inf, math.nan), (1e308, -1.0)):
        data[at : at + 16] = np.array([wall, monotonic]).tobytes()
        found = recent_of(bytes(data))
        assert found is not None
        assert len(found.series(11, "cpu")) in (1, 2)
