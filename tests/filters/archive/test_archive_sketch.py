"""Percentiles of sketches against those of all values, by nearest rank."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from filters.archive.minutes.merging import coarser, merge
from filters.archive.minutes.rollup import Rollup
from filters.archive.minutes.sketch import ERROR, Sketch, added, of_values
from filters.archive.minutes.values import FIVE_MINUTES, MinuteMatrix, Series, Statistic

_VALUES = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=300)
IDS = np.array([7, 1 << 63], np.uint64)


def nearest_rank(values: list[float]) -> float:
    """The slow definition."""
    return sorted(values)[-(-len(values) * 95 // 100) - 1]


@given(_VALUES, st.lists(st.integers(0, 300), max_size=6))
@example([0.0], [])
@example([3.4028234663852886e38, -3.4028234663852886e38], [1])
@example([1e-45] * 20 + [-1e-45], [])
def test_percentile_of_merged_sketches_is_within_one_percent(values: list[float], cuts: list[int]) -> None:
    whole = np.full((len(values), 2, 3), np.nan, np.float32)
    whole[:, 1, 2] = values
    parts = [part for part in np.split(whole, sorted(min(cut, len(values)) for cut in cuts)) if len(part)]
    places = np.arange(3, dtype=np.int16)
    sketch = added(Sketch.decode(of_values(IDS, places, part).encode()) for part in parts)
    assert sketch is not None
    assert sketch.counts.sum() == len(values)
    found = sketch.percentiles(IDS, 3)
    wanted = nearest_rank(values)
    assert abs(found[1, 2] - wanted) <= ERROR * 1.0001 * abs(wanted) + 1e-30
    assert np.isnan(found).sum() == 5


def test_an_empty_sketch_has_no_percentiles() -> None:
    nothing = of_values(IDS, np.arange(1, dtype=np.int16), np.full((3, 2, 1), np.nan, np.float32))
    assert np.isnan(nothing.percentiles(IDS, 1)).all()
    assert added([]) is None
    assert Sketch.decode(nothing.encode()).counts.size == 0


def minute(number: int, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]], late: bool = False) -> MinuteMatrix:
    """A minute of one entity and metric."""
    rollup = Rollup(1, () if late else (0,))
    for tick, value in enumerate(values.tolist()):
        rollup.add(60 * number + tick, np.array([5], "<u8").tobytes(), np.float32(value).tobytes())
    sketch = rollup.sketch()
    kept = None if sketch is None else sketch.encode()
    late_samples = len(values) if late else 0
    return MinuteMatrix(
        Series(1, 2, 3, 4), 60 * number, rollup.tick, rollup.ids, rollup.planes(), late_samples, sketch=kept
    )


def test_coarse_levels_have_exact_percentiles_despite_late_samples() -> None:
    samples = np.random.default_rng(1).lognormal(0.0, 2.0, (5, 60)).astype(np.float32)
    (whole,) = coarser([minute(n, part) for n, part in enumerate(samples)], FIVE_MINUTES)
    wanted = nearest_rank(samples.ravel().tolist())
    assert abs(whole.values[Statistic.P95, 0, 0] - wanted) <= 1.0001 * ERROR * wanted
    (first,) = coarser([minute(n, part) for n, part in enumerate(samples[:3])], FIVE_MINUTES)
    (rest,) = coarser([minute(n, part) for n, part in enumerate(samples[3:], 3)], FIVE_MINUTES)
    assert merge(first, rest).values[Statistic.P95, 0, 0] == whole.values[Statistic.P95, 0, 0]
    late = minute(1, samples[0] * 100, late=True)
    assert np.isnan(late.values[Statistic.P95]).all()
    mended = merge(whole, next(coarser([late], FIVE_MINUTES)))
    assert mended.values[Statistic.P95, 0, 0] == whole.values[Statistic.P95, 0, 0]
    assert (mended.late, mended.values[Statistic.COUNT, 0, 0]) == (60, 360)
