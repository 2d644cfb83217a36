"""A minute's accumulators against numpy over all of its samples at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from filters.archive.rollup import Rollup
from filters.archive.values import Statistic


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 70), st.integers(1, 4), st.floats(0.0, 1.0), st.booleans())
def test_planes_are_those_of_all_samples(seed: int, frames: int, metrics: int, bad: float, churn: bool) -> None:
    rng = np.random.default_rng(seed)
    everything: dict[int, list[tuple[int, np.ndarray]]] = {}
    rollup = Rollup(metrics, range(1, metrics))
    for tick in rng.permutation(frames).tolist():
        ids = np.unique(rng.integers(1, 12, 6)) if churn else np.arange(1, 8)
        values = rng.normal(1e6, 10.0, (len(ids), metrics)).astype(np.float32)
        values[rng.random(values.shape) < bad] = np.nan
        rollup.add(tick, ids.astype("<u8").tobytes(), values)
        for entity, row in zip(ids.tolist(), values, strict=True):
            everything.setdefault(entity, []).append((tick, row))
    planes = rollup.planes()
    assert sorted(rollup.ids.tolist()) == sorted(everything)
    assert (rollup.frames, rollup.tick) == (frames, frames - 1)
    for row, entity in enumerate(rollup.ids.tolist()):
        stack = np.array([values for _, values in sorted(everything[entity], key=lambda one: one[0])], np.float64)
        for column in range(metrics):
            cells, found = stack[:, column], planes[:, row, column]
            good = cells[np.isfinite(cells)]
            assert (found[Statistic.COUNT], found[Statistic.VALID]) == (len(cells), len(good))
            if not len(good):
                assert np.isnan(found[Statistic.MEAN :]).all()
                continue
            nearest = np.sort(good)[-(-len(good) * 95 // 100) - 1] if column else np.nan
            np.testing.assert_equal(found[Statistic.P95], np.float32(nearest))
            wanted = [good.mean(), good.std(), good.min(), good.max(), good[-1]]
            np.testing.assert_allclose(found[Statistic.MEAN : Statistic.P95], wanted, rtol=1e-6, atol=1e-4)


def test_an_entity_that_is_in_a_frame_twice_counts_twice() -> None:
    rollup = Rollup(1, [0])
    rollup.add(1, np.array([5, 5], "<u8").tobytes(), np.array([[1.0], [3.0]], np.float32))
    planes = rollup.planes()
    assert planes[: Statistic.DEVIATION, 0, 0].tolist() == [2.0, 2.0, 2.0]
    assert planes[Statistic.P95, 0, 0] == 3.0
