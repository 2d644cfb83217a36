"""A minute's accumulators against numpy over all of its samples at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.model.codes import MISSING, OUTLIER_FLAG, RANGE
from filters.archive.minutes import rollup as rollups
from filters.archive.minutes.rollup import INVALID, Rollup
from filters.archive.minutes.values import Statistic

FOLD = rollups.FOLD


@pytest.fixture(scope="module", params=["native", "numpy"])
def step(request: pytest.FixtureRequest) -> Iterator[None]:
    """What folds frames in."""
    if request.param == "native" and FOLD is None:
        pytest.skip("it is not compiled here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollups, "FOLD", FOLD if request.param == "native" else None)
        yield


@pytest.mark.usefixtures("step")
@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 70), st.integers(1, 4), st.floats(0.0, 1.0), st.booleans(), st.booleans())
def test_planes_are_those_of_all_samples(
    seed: int, frames: int, metrics: int, bad: float, churn: bool, kept: bool
) -> None:
    rng = np.random.default_rng(seed)
    everything: dict[int, list[tuple[int, np.ndarray]]] = {}
    rollup = Rollup(metrics, range(1, metrics) if kept else ())
    for tick in rng.permutation(frames).tolist():
        ids = np.unique(rng.integers(1, 12, 6)) if churn else np.arange(1, 8)
        values = rng.normal(1e6, 10.0, (len(ids), metrics)).astype(np.float32)
        values[rng.random(values.shape) < bad] = np.nan
        rollup.add(tick, ids.astype("<u8").tobytes(), values.tobytes())
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
            nearest = np.sort(good)[-(-len(good) * 95 // 100) - 1] if column and kept else np.nan
            np.testing.assert_equal(found[Statistic.P95], np.float32(nearest))
            wanted = [good.mean(), good.std(), good.min(), good.max(), good[-1]]
            np.testing.assert_allclose(found[Statistic.MEAN : Statistic.P95], wanted, rtol=1e-6, atol=1e-4)


@pytest.mark.usefixtures("step")
def test_an_entity_that_is_in_a_frame_twice_counts_twice() -> None:
    rollup = Rollup(1, [0])
    rollup.add(1, np.array([5, 5], "<u8").tobytes(), np.array([[1.0], [3.0]], np.float32).tobytes())
    planes = rollup.planes()
    assert planes[: Statistic.DEVIATION, 0, 0].tolist() == [2.0, 2.0, 2.0]
    assert planes[Statistic.P95, 0, 0] == 3.0


@pytest.mark.usefixtures("step")
def test_invalid_samples_count_and_are_told_with_their_places() -> None:
    rollup, ids = Rollup(2), np.array([9, 4], "<u8").tobytes()
    rollup.add(1, ids, np.array([[1, 2], [3, 4]], np.float32).tobytes())
    codes = bytes([RANGE, OUTLIER_FLAG, 0, OUTLIER_FLAG | MISSING])
    turned = np.array([4, 9], "<u8").tobytes()
    found = rollup.add(2, turned, np.array([[7, 8], [9, np.nan]], np.float32).tobytes(), codes)
    cells = np.frombuffer(found, INVALID)
    assert [cells["cell"].tolist(), cells["code"].tolist(), cells["value"][0]] == [[0, 3], [RANGE, MISSING], 7.0]
    planes = rollup.planes()
    assert planes[Statistic.COUNT].tolist() == [[2, 2], [2, 2]]
    assert planes[Statistic.VALID].tolist() == [[2, 1], [1, 2]]
    assert planes[Statistic.LAST].tolist() == [[9, 2], [3, 8]]


@pytest.mark.parametrize(
    ("values", "codes", "rows", "metrics"),
    [(b"1234", b"", b"", 2), (b"1234" * 4, b"", b"", 2), (b"1234" * 2, b"1", b"", 2), (b"1234" * 2, b"", b"1" * 4, 2),
     (b"1234" * 2, b"", (1).to_bytes(8, "little"), 2), (b"1234" * 2, b"", b"\xff" * 8, 2), (b"", b"", b"", 0)],
)  # fmt: skip
def test_what_does_not_fit_is_refused(values: bytes, codes: bytes, rows: bytes, metrics: int) -> None:
    if FOLD is None:
        pytest.skip("it is not compiled here")
    doubles, floats = [np.zeros(2) for _ in range(4)], [np.zeros(2, np.float32) for _ in range(3)]
    with pytest.raises(ValueError, match=r"fit|one size|more values|for each|beyond"):
        FOLD(*doubles, *floats, np.zeros(2, np.int64), values, codes, rows, metrics, 1, 127)
