"""The vectorised filter equals the scalar model, whatever happens to the samples."""

from __future__ import annotations

from typing import Any

import hiredis
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.model import codes
from acquisition.wire import frame
from acquisition.wire.frame import Frame
from acquisition.wire.position import Commit
from acquisition.wire.records import planes, smoothed
from acquisition.wire.records.planes import Plane
from experiments.harness import scalar_model
from experiments.harness.scalar_model import Observation
from filters import kernels
from filters.kernels import Kernel
from filters.worker.compute.smoothing import Smoother
from filters.worker.partitions.batch import Accepted, Batch
from filters.worker.partitions.partition import CommitEncoder
from filters.worker.partitions.rejections import Rejections
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.state import State
from filters.worker.step import native
from filters.worker.step.native import Step
from tests.support.scene import record
from tests.support.untested import require_native

ALL = kernels.select(tuple(kernels.REGISTRY))
COMPUTED = kernels.computed(ALL)


class Bench:
    """States that are fed frames without any shard, and the histories of their samples."""

    engine: Step | None = None  #: what computes: C, or numpy

    def __init__(self, tau: float = 5.0, taus: dict[str, float] | None = None) -> None:
        self.settings = FilterSettings(tau_seconds=tau, tau=taus or {})
        self.batch = Batch(0, Rejections("0"))
        self.smoother = Smoother(self.settings, ALL, self.engine)
        self.histories: dict[tuple[int, int, int], list[Observation]] = {}
        self.states: dict[int, State] = {}

    def state(self, host: int) -> State:
        return self.states.setdefault(host, State("0", host, 1, 3))

    def frame(self, host: int, at: float, ids: list[int], values: Any, marks: Any = None, schema: int = 1) -> Accepted:
        matrix = np.asarray(values, "<f4")
        n, m = matrix.shape
        flags = None if marks is None else np.asarray(marks, np.uint8)
        for row, entity in enumerate(ids):
            for column in range(m):
                code = 0 if flags is None else int(flags[row, column])
                seen = Observation(at, float(matrix[row, column]), code)
                self.histories.setdefault((host, entity, column), []).append(seen)
        made = Frame(
            frame.KIND_SAMPLES, schema, host, 1, n, m, 1.0, 1, 1, 1, 0, int(at), at, at,
            np.asarray(ids, "<u8").tobytes(), matrix.tobytes(), b"" if flags is None else flags.tobytes(),
        )  # fmt: skip
        return Accepted(self.batch, self.state(host), made.samples, frame.encode(made))

    def feed(self, *items: Accepted) -> None:
        self.smoother.smooth(list(items))

    def compare(self, tau_of: Any = None) -> None:
        for host, state in self.states.items():
            ids = np.frombuffer(state.ids, "<u8").tolist()
            planes = state.planes.reshape(len(COMPUTED), len(ids), -1)
            for row, entity in enumerate(ids):
                for column in range(planes.shape[2]):
                    tau = tau_of(column) if tau_of else self.settings.tau_seconds
                    expected = scalar_model.run(self.histories[(host, entity, column)], tau)
                    got = {kernel.name: float(planes[i, row, column]) for i, kernel in enumerate(COMPUTED)}
                    for name, value in got.items():
                        floor = 1e-4 if name == "variance" else 1e-5  # values are of tens: 1e-6 of their squares
                        assert value == pytest.approx(getattr(expected, name), rel=1e-4, abs=floor, nan_ok=True), (
                            host, entity, column, name,
                        )  # fmt: skip


@pytest.fixture(scope="module", params=["C", "numpy"], autouse=True)
def engine(request: pytest.FixtureRequest) -> None:
    """Every test of this file runs with both."""
    if request.param == "C":
        require_native(native.STEP)
    Bench.engine = native.STEP if request.param == "C" else None


def test_every_kernel_has_a_plane_and_a_scalar_definition() -> None:
    assert {kernel.plane for kernel in kernels.REGISTRY.values()} == set(planes.OWN)
    for name in kernels.REGISTRY:
        assert hasattr(scalar_model.State(), name)


def test_selecting_kernels_adds_what_they_need_in_order() -> None:
    assert [kernel.name for kernel in kernels.select(["trend"])] == ["mean", "trend"]
    with pytest.raises(KeyError):
        kernels.select(["median"])


def test_added_kernel_starts_at_mean_and_restarts_no_other() -> None:
    values = np.array([[1.0, np.nan], [3.0, 4.0]])
    data = record(1, 1, [5, 6], values, 7, planes=("last", "mean", "variance"), exceptions=[(1, 1, np.inf)])
    before = smoothed.decode(data)
    state = State("0", 1, 1, 3)
    state.restore(before, ALL)
    assert [kernel.name for kernel in COMPUTED] == ["mean", "variance", "trend"]
    np.testing.assert_array_equal(state.planes[0], values.ravel())
    assert state.planes[1:].tolist() == [[4.0] * 4, [0.0] * 4]
    peak = Kernel(Plane(5, "peak", ""), prime=lambda x: x)
    state.restore(before, (*ALL, peak))
    np.testing.assert_array_equal(state.planes[3], values.ravel())
    without = State("0", 1, 1, 3)
    without.restore(smoothed.decode(record(1, 1, [5, 6], values, 7, planes=("last", "variance"))), ALL)
    assert without.ids == b""


def test_first_valid_sample_primes_and_gaps_decay_as_gaps() -> None:
    bench = Bench()
    bench.feed(bench.frame(1, 10.0, [5], [[2.0]]))
    bench.feed(bench.frame(1, 11.0, [5], [[4.0]]))
    bench.feed(bench.frame(1, 41.0, [5], [[8.0]]))
    bench.compare()
    one_step = Bench()
    one_step.feed(one_step.frame(1, 10.0, [5], [[2.0]]))
    one_step.feed(one_step.frame(1, 10.5, [5], [[4.0]]))
    one_step.feed(one_step.frame(1, 11.0, [5], [[4.0]]))
    two = Bench()
    two.feed(two.frame(1, 10.0, [5], [[2.0]]))
    two.feed(two.frame(1, 11.0, [5], [[4.0]]))
    assert one_step.states[1].planes[0, 0] == pytest.approx(two.states[1].planes[0, 0], rel=1e-6)


def test_invalid_samples_hold_the_mean_and_age() -> None:
    bench = Bench()
    bench.feed(bench.frame(1, 1.0, [1, 2], [[1.0, 2.0], [3.0, 4.0]]))
    bench.feed(bench.frame(1, 2.0, [1, 2], [[9.0, -5.0], [3.0, 4.0]], [[0, codes.RANGE], [0, 0]]))
    bench.feed(bench.frame(1, 3.0, [1, 2], [[9.0, np.nan], [3.0, 4.0]], [[0, codes.MISSING], [0, 0]]))
    assert bench.states[1].exception_table["index"].tolist() == [1]
    assert bench.states[1].exception_table["age"].tolist() == [2.0]
    bench.feed(bench.frame(1, 4.0, [1, 2], [[9.0, 6.0], [3.0, 4.0]]))
    assert bench.states[1].exception_table.size == 0
    bench.compare()


def test_a_never_valid_sample_stays_unprimed() -> None:
    bench = Bench()
    for at in (1.0, 2.0):
        bench.feed(bench.frame(1, at, [1], [[np.nan]], [[codes.MISSING]]))
    assert np.isnan(bench.states[1].planes[0, 0])
    assert np.isinf(bench.states[1].exception_table["age"][0])
    bench.feed(bench.frame(1, 3.0, [1], [[7.0]]))
    bench.compare()


def test_a_number_that_is_none_is_never_believed() -> None:
    bench = Bench()
    bench.feed(bench.frame(1, 1.0, [1], [[1.0]]))
    item = bench.frame(1, 2.0, [1], [[np.inf]])
    bench.feed(item)
    assert bench.states[1].planes[0, 0] == 1.0
    assert bench.states[1].exception_table["age"][0] == 1.0


def test_outliers_are_flagged_but_used() -> None:
    bench = Bench()
    bench.feed(bench.frame(1, 1.0, [1], [[1.0]]))
    bench.feed(bench.frame(1, 2.0, [1], [[5.0]], [[codes.OUTLIER_FLAG]]))
    assert bench.states[1].exception_table["age"].tolist() == [0.0]
    assert bench.states[1].track.invalid == 0
    bench.feed(bench.frame(1, 3.0, [1], [[6.0]]))
    bench.compare()


def test_entities_come_and_go() -> None:
    bench = Bench()
    bench.feed(bench.frame(1, 1.0, [1, 2, 3], [[1.0], [2.0], [3.0]]))
    bench.feed(bench.frame(1, 2.0, [3, 4, 1], [[3.5], [4.5], [1.5]]))
    bench.feed(bench.frame(1, 3.0, [4, 1], [[5.0], [2.0]]))
    bench.compare()


def test_an_entity_that_returns_starts_anew() -> None:
    bench = Bench()
    bench.feed(bench.frame(1, 1.0, [1, 2], [[1.0], [2.0]]))
    bench.feed(bench.frame(1, 2.0, [1], [[1.0]]))
    bench.feed(bench.frame(1, 3.0, [1, 2], [[1.0], [9.0]]))
    assert bench.states[1].planes[0].tolist() == [1.0, 9.0]


def test_other_columns_start_anew() -> None:
    bench = Bench()
    bench.feed(bench.frame(1, 1.0, [1], [[1.0, 2.0]]))
    bench.feed(bench.frame(1, 2.0, [1], [[3.0, 4.0]], schema=2))
    assert bench.states[1].planes[0].tolist() == [3.0, 4.0]


def test_a_monotonic_clock_that_goes_back_starts_anew() -> None:
    bench = Bench()
    bench.feed(bench.frame(1, 100.0, [1], [[1.0]]))
    bench.feed(bench.frame(1, 5.0, [1], [[3.0]]))
    assert bench.states[1].planes[0].tolist() == [3.0]


def test_a_metric_can_have_its_own_time_constant() -> None:
    bench = Bench(taus={"slow": 50.0})
    bench.state(1).tau = np.array([50.0, 5.0])
    for at in range(1, 8):
        bench.feed(
            bench.frame(1, float(at), [1, 2], np.arange(4).reshape(2, 2) * at, [[0, at == 3], [0, 0]]),
            bench.frame(2, float(at), [1], [[at, at]]),
        )
    state = bench.states.pop(2)
    bench.compare(lambda column: 50.0 if column == 0 else 5.0)
    bench.states = {2: state}
    bench.compare()


def test_empty_frames_with_own_time_constants_are_smoothed() -> None:
    bench = Bench(taus={"slow": 50.0})
    bench.state(1).tau = bench.state(2).tau = np.array([50.0, 5.0])
    bench.feed(bench.frame(1, 1.0, [], np.empty((0, 2))), bench.frame(2, 1.0, [], np.empty((0, 2))))
    assert bench.states[1].planes.shape == bench.states[2].planes.shape == (3, 0)


def test_what_float32_cannot_square_is_out_of_range() -> None:
    bench = Bench()
    for at, value in enumerate((1.0, 3.4e38, -3.4e38, 2.0, 2e18), 1):
        bench.feed(bench.frame(1, float(at), [1], [[value]]))
    assert np.isfinite(bench.states[1].planes).all()
    assert bench.states[1].exception_table["index"].tolist() == [0]  # the newest one was not used


def test_an_interval_that_float32_takes_for_none_starts_anew() -> None:
    bench = Bench()
    bench.feed(bench.frame(1, 1e-60, [1], [[1.0]]))
    bench.feed(bench.frame(1, 2e-60, [1], [[3.0]]))
    assert bench.states[1].planes.ravel().tolist() == [3.0, 0.0, 0.0]


def test_records_of_one_commit_show_each_its_own_tick() -> None:
    bench = Bench()
    bench.feed(bench.frame(1, 1.0, [1], [[2.0]]), bench.frame(1, 2.0, [1], [[4.0]]), bench.frame(1, 3.0, [1], [[8.0]]))
    reader = hiredis.Reader()
    reader.feed(b"".join(CommitEncoder("0", None).transaction(bench.batch, Commit(b"", b"0-0", 0)).pieces))
    commands = iter(reader.gets, False)
    records = [
        smoothed.decode(command[2]) for command in commands if command[1:] and command[1].startswith(b"smoothed:")
    ]
    means = {record.tick: float(record.planes["mean"][0, 0]) for record in records}
    assert set(means) == {1, 2, 3}
    assert means[1] == 2.0 < means[2] < means[3]
    assert means[3] == bench.states[1].planes[0, 0]


def test_frames_without_entities_are_no_trouble() -> None:
    bench = Bench()
    bench.feed(bench.frame(1, 1.0, [], np.empty((0, 3))), bench.frame(2, 1.0, [1], [[1.0, 2.0, 3.0]]))
    bench.feed(bench.frame(1, 2.0, [4], [[1.0, 2.0, 3.0]]))
    bench.compare()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 25))
def test_random_histories_equal_the_scalar_model(seed: int, hosts: int, ticks: int) -> None:
    rng = np.random.default_rng(seed)
    bench = Bench(tau=float(rng.uniform(0.5, 60)))
    present = {host: list(range(1, rng.integers(2, 6))) for host in range(hosts)}
    clock = dict.fromkeys(range(hosts), 1.0)
    fresh = 1000
    for _ in range(ticks):
        items = []
        for host in range(hosts):
            for _ in range(rng.integers(1, 3)):  # now and then two frames of a host in one batch
                if rng.random() < 0.2 and len(present[host]) > 1:
                    present[host].remove(int(rng.choice(present[host])))
                if rng.random() < 0.2:
                    fresh += 1
                    present[host].append(fresh)
                clock[host] += float(rng.choice([0.25, 1.0, 1.0, 1.01, 7.0]))
                shape = (len(present[host]), 3)
                marks = np.where(rng.random(shape) < 0.2, rng.integers(1, 11, shape), 0)
                values = np.where(marks == codes.MISSING, np.nan, rng.normal(50, 20, shape))
                items.append(bench.frame(host, clock[host], list(present[host]), values, marks))
        bench.feed(*items)
    bench.compare()
