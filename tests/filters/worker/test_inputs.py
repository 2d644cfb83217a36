"""Decision inputs: hand-computed cases, and any history against a scalar transcription of the formulas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.model import codes
from acquisition.model.derived import DERIVED
from acquisition.model.metric import Metric, schema_hash
from acquisition.wire.records import recent
from experiments.harness import scalar_model
from experiments.harness.scalar_model import Observation
from filters.worker.inputs.derived import Averages, derive, smooth
from filters.worker.inputs.order import ABSENT, order_statistics
from filters.worker.inputs.plan import InputsSettings, Plan, misnamed
from filters.worker.inputs.ring import Ring
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.name_table import learn
from filters.worker.step import native
from probes.metrics import RESOURCE_SETS
from tests.support.inputs_bench import STEPS, VMS, Bench, names
from tests.support.untested import require_native

NAN = math.nan


@pytest.fixture(autouse=True, scope="module", params=["native", "numpy"])
def step(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test of this file runs with both steps."""
    if request.param == "native":
        require_native(native.STEP)
    STEPS["chosen"] = native.STEP if request.param == "native" else None
    yield
    STEPS["chosen"] = native.STEP


RANGE = codes.RANGE


def column(bench: Bench, *series: float, codes_of: dict[int, int] | None = None, first: float = 1.0) -> None:
    """Feed one entity of one host a series of its column 1, a second apart."""
    for tick, value in enumerate(series):
        marks = [[0, (codes_of or {}).get(tick, 0), 0, 0]]
        bench.feed(bench.item(7, first + tick, [1], [[0.0, value, 0.0, 0.0]], marks))


def test_a_window_by_hand() -> None:
    bench = Bench(window=5, counted=3)
    column(bench, 0.9, 0.1, 0.2, 0.6, 0.4, 0.7)
    found = bench.found(7, 1, 1)
    # the window is 0.1 0.2 0.6 0.4 0.7; deviations from 0.4 are 0.3 0.2 0.2 0 0.3; the last three are 0.6 0.4 0.7
    assert found["median"] == pytest.approx(0.4)
    assert found["mad"] == pytest.approx(0.2)
    assert (found["q1"], found["q3"]) == (pytest.approx(0.2), pytest.approx(0.6))
    assert (found["valid"], found["counted"], found["above"], found["seen"]) == (5, 3, 2, 5)
    assert found["time_above"] == pytest.approx(1.0)


def test_an_even_number_of_valid_samples_by_hand() -> None:
    bench = Bench(window=5, counted=3)
    column(bench, 0.1, 0.2, 50.0, 0.4, 0.8, codes_of={2: RANGE})
    found = bench.found(7, 1, 1)
    # valid are 0.1 0.2 0.4 0.8: median 0.3, deviations 0.2 0.1 0.1 0.5, quartiles at ranks 0.75 and 2.25
    assert found["median"] == pytest.approx(0.3)
    assert found["mad"] == pytest.approx(0.15)
    assert found["q1"] == pytest.approx(0.1 + 0.75 * 0.1)
    assert found["q3"] == pytest.approx(0.4 + 0.25 * 0.4)
    assert (found["valid"], found["counted"], found["above"]) == (4, 2, 1)


def test_cusum_by_hand() -> None:
    bench = Bench()
    column(bench, 0.2, 0.2, 0.9, 0.9)
    alpha = 1 - math.exp(-1 / 5)
    mean = 0.2 + alpha * 0.7  # after the first 0.9
    assert bench.found(7, 1, 1)["cusum"] == pytest.approx((0.9 - 0.2 - 0.1) + (0.9 - mean - 0.1), rel=1e-5)


def test_time_above_survives_invalid_samples_until_valid_one() -> None:
    bench = Bench()
    column(bench, 0.9, 0.9, NAN, 0.9, codes_of={2: codes.MISSING})
    assert bench.found(7, 1, 1)["time_above"] == pytest.approx(3.0)
    column(bench, 0.3, first=5.0)
    assert bench.found(7, 1, 1)["time_above"] == 0.0


def test_a_plateau_by_hand() -> None:
    bench = Bench(window=5, counted=3, plateau=3)
    column(bench, 0.9, 0.95)
    assert math.isnan(bench.found(7, 1, 1)["lowest"])  # two of three
    column(bench, 0.91, 0.1, 0.94, codes_of={1: RANGE}, first=3.0)
    found = bench.found(7, 1, 1)  # the last three valid ones are 0.95 0.91 0.94
    assert (found["lowest"], found["highest"]) == (pytest.approx(0.91), pytest.approx(0.95))
    column(bench, NAN, NAN, NAN, codes_of={0: RANGE, 1: RANGE, 2: RANGE}, first=6.0)
    found = bench.found(7, 1, 1)  # the window holds 0.94 alone, whatever came before it
    assert math.isnan(found["lowest"])
    assert math.isnan(found["highest"])


def test_without_a_plateau_nothing_is_kept_of_it() -> None:
    bench = Bench(plateau=0)
    column(bench, 0.9, 0.9, 0.9)
    assert not {"lowest", "highest"} & set(bench.found(7, 1, 1))
    state = bench.states[7].inputs
    assert state is not None
    assert state.arrays().lately.size == 0


def test_without_order_statistics_nothing_is_kept_of_them() -> None:
    bench = Bench(order_statistics=("host",))
    column(bench, 0.9, 0.9, 0.9)
    found = bench.found(7, 1, 1)
    assert not {"median", "mad", "q1", "q3"} & set(found)
    assert (found["valid"], found["above"], found["lowest"]) == (3, 3, pytest.approx(0.9))
    state = bench.states[7].inputs
    assert state is not None
    assert state.arrays().ordered.size == 0


def test_a_gap_is_no_end_of_a_plateau_and_a_long_one_is() -> None:
    bench = Bench(window=5, counted=3, plateau=3)
    column(bench, 0.9, 0.92)
    bench.feed(bench.item(7, 5.0, [1], [[0, 0.91, 0, 0]], missing=2))
    assert bench.found(7, 1, 1)["highest"] == pytest.approx(0.92)
    bench.feed(bench.item(7, 15.0, [1], [[0, 0.91, 0, 0]]))
    assert math.isnan(bench.found(7, 1, 1)["highest"])


def test_nothing_valid_has_no_order_statistics() -> None:
    bench = Bench()
    column(bench, NAN, NAN, codes_of={0: codes.FIRST, 1: codes.MISSING})
    found = bench.found(7, 1, 1)
    assert all(math.isnan(found[name]) for name in ("median", "mad", "q1", "q3"))
    assert (found["valid"], found["above"], found["cusum"], found["seen"]) == (0, 0, 0, 2)


def test_gap_occupies_window_and_long_gap_restarts_it() -> None:
    bench = Bench(window=5, counted=3)
    column(bench, 0.9, 0.9, 0.9, 0.9)
    bench.feed(bench.item(7, 7.0, [1], [[0, 0.9, 0, 0]], missing=2))  # ticks 5 and 6 never came
    found = bench.found(7, 1, 1)
    assert (found["valid"], found["counted"], found["above"], found["seen"]) == (3, 1, 1, 5)
    assert found["time_above"] == pytest.approx(5.0)  # of seven seconds, two were not seen
    bench.feed(bench.item(7, 13.0, [1], [[0, 0.9, 0, 0]]))
    found = bench.found(7, 1, 1)
    assert (found["valid"], found["seen"], found["cusum"]) == (1, 1, 0.0)
    assert found["since"] == 1e6 + 13.0


@pytest.mark.parametrize(("at", "epoch"), [(9.0, 2), (2.0, 1), (4.0, 1)])
def test_a_new_epoch_and_a_clock_that_did_not_advance_begin_anew(at: float, epoch: int) -> None:
    bench = Bench()
    column(bench, 0.9, 0.9, 0.9, 0.9)
    bench.feed(bench.item(7, at, [1], [[0, 0.7, 0, 0]], epoch=epoch))
    found = bench.found(7, 1, 1)
    assert (found["valid"], found["seen"], found["since"], found["cusum"]) == (1, 1, 1e6 + at, 0.0)
    assert found["median"] == pytest.approx(0.7)


def test_figures_that_no_square_is_finite_of_count_as_invalid() -> None:
    bench = Bench()
    column(bench, 0.5, math.inf, 1e30, NAN, 0.7)
    found = bench.found(7, 1, 1)
    assert (found["valid"], found["median"]) == (2, pytest.approx(0.6))


SAMPLES = st.tuples(
    st.one_of(st.integers(0, 8).map(lambda eighth: eighth / 8), st.floats(0, 1, width=32), st.just(NAN)),
    st.sampled_from([0, 0, 0, 0, codes.OUTLIER_FLAG, RANGE, codes.MISSING]),
)
TICKS = st.lists(
    st.tuples(
        st.integers(0, 3).map(lambda n: max(0, n - 1)),  # ticks that never come before this one
        st.lists(st.integers(1, 4), min_size=1, max_size=4, unique=True),  # who is there, in which order
        st.lists(st.tuples(SAMPLES, SAMPLES), min_size=8, max_size=8),
    ),
    min_size=1,
    max_size=14,
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(TICKS, st.integers(2, 6), st.integers(1, 6), st.integers(0, 4))
def test_any_history_equals_the_scalar_transcription(ticks: list, window: int, counted: int, plateau: int) -> None:
    bench = Bench(window, min(counted, window), min(plateau, window))
    at = 0.0
    for gap, ids, samples in ticks:
        missing = min(gap, window - 1) if at else 0
        at += 1 + missing
        items = []
        for host in (1, 2):  # two hosts in one batch, of which the second has one entity more
            rows = ids if host == 1 else [*ids, 9]
            values, marks = np.zeros((len(rows), 4)), np.zeros((len(rows), 4), np.uint8)
            for row in range(len(rows)):
                for place, (value, code) in zip((1, 3), samples[(row + host) % 8], strict=True):
                    values[row, place], marks[row, place] = value, code or (RANGE if math.isnan(value) else 0)
            items.append(bench.item(host, at, rows, values, marks, missing=missing))
        bench.feed(*items)
    for host, ids in bench.last_ids.items():
        for entity in ids:
            for place in (1, 3):
                compare(bench, host, entity, place)


def compare(bench: Bench, host: int, entity: int, place: int) -> None:
    found, expected = bench.found(host, entity, place), bench.expected(host, entity, place)
    for name, value in expected.items():
        if value is None:
            assert math.isnan(found[name]), (host, entity, place, name)
        else:
            assert found[name] == pytest.approx(value, rel=1e-4, abs=2e-5), (host, entity, place, name)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 31), st.integers(1, 40), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_order_statistics_of_any_windows(n: int, size: int, invalid: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    windows = np.round(rng.normal(0, 2, (size, n)), 1).astype(np.float32)  # many ties
    windows[rng.random((size, n)) < invalid] = ABSENT
    valid = np.count_nonzero(windows < ABSENT, axis=1)
    found = order_statistics(windows.copy(), valid)
    for i in range(size):
        there = windows[i][windows[i] < ABSENT].astype(np.float64)
        if not there.size:
            assert all(np.isnan(figure[i]) for figure in found)
            continue
        median = np.median(there)
        expected = (median, np.median(np.abs(there - median)), *np.quantile(there, (0.25, 0.75)))
        assert [float(figure[i]) for figure in found] == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_derived_metrics_by_hand() -> None:
    value, code = derive(
        DERIVED["cpu_busy_ratio"],
        [np.float32([0.6, 0.6, 0.6]), np.float32([0.1, 0.1, 0.1])],
        [np.uint8([0, RANGE, codes.OUTLIER_FLAG]), np.uint8([0, codes.MISSING, 0])],
    )
    assert value == pytest.approx(np.float32([0.3, 0.3, 0.3]))
    assert code.tolist() == [0, RANGE, codes.OUTLIER_FLAG]
    valid = np.zeros(2, np.uint8)
    value, code = derive(DERIVED["memory_used_ratio"], [np.float32([2.0, 0.0]), np.float32([8.0, 0.0])], [valid])
    assert value[0] == 0.75
    assert code.tolist() == [0, RANGE]
    values = [np.float32([2.0, 2.0, 2.0]), np.float32([8.0, 8.0, 8.0]), np.float32([4.0, NAN, 4.0])]
    marks = [np.zeros(3, np.uint8), np.zeros(3, np.uint8), np.uint8([0, codes.MISSING, codes.UNREADABLE])]
    value, code = derive(DERIVED["memory_used_ratio"], values, marks)
    assert value[:2].tolist() == [0.25, 0.75]  # with free huge pages, and where there are none
    assert code.tolist() == [0, 0, codes.UNREADABLE]
    parts = [np.float32([25.0]), np.float32([50.0]), np.float32([100.0])]
    assert derive(DERIVED["network_used_ratio"], parts, [np.zeros(1, np.uint8)])[0].tolist() == [0.5]


@pytest.mark.parametrize(
    ("suffering", "pressure", "runnable", "share"),
    [
        (0.36, 1.0, 9.0, 0.1), (0.0, 0.2, 6.0, 1.0 / 4.24),  # what guests wait for, and a host without guests
        (None, 0.36, 4.0, 0.1), (None, 0.2, 6.0, 1.0 / 4.24), (None, None, 6.0, 1.0 / 4.24),
        (None, None, 5.0, 0.0), (None, None, 3.0, 0.0),  # one of those that run is the probe
    ],
)  # fmt: skip
def test_waiting_share_is_of_the_best_signal(
    suffering: float | None, pressure: float | None, runnable: float, share: float
) -> None:
    parts = [0.19, 0.0, 4.0, runnable, suffering, pressure]  # four cores, busy by 0.81
    marks = [np.uint8([0 if part is not None else codes.MISSING]) for part in parts]
    value, code = derive(DERIVED["cpu_waiting_ratio"], [np.float32([NAN if p is None else p]) for p in parts], marks)
    assert value.tolist() == pytest.approx([share])
    assert code.tolist() == [0]
    idle = [np.float32([part]) for part in (1.0, 0.0, 4.0, 0.0, 0.0, 0.0)]
    assert derive(DERIVED["cpu_waiting_ratio"], idle, [np.zeros(1, np.uint8)] * 6)[0].tolist() == [0.0]


def test_derived_metrics_are_smoothed_as_others_are() -> None:
    rng = np.random.default_rng(4)
    state = Averages(*(np.full((1, 1), fill, np.float32) for fill in (NAN, NAN, NAN, 0.0)))
    seen, at = [], 0.0
    for _ in range(40):
        dt = float(rng.uniform(0.5, 3.0))
        at += dt
        value, code = np.float32(rng.random()), int(rng.random() < 0.3)
        seen.append(Observation(at, float(value), code and RANGE))
        x = np.array([[NAN if code else value]], np.float32)
        state = smooth(state, x, np.array([dt]), np.array([[5.0]]))
        want = scalar_model.run(seen, 5.0)
        for name in ("mean", "variance", "trend"):
            assert float(getattr(state, name)[0, 0]) == pytest.approx(
                getattr(want, name), rel=1e-4, abs=1e-5, nan_ok=True
            )


def planned(thresholds: dict[str, float], metrics: tuple[str, ...], **given: Any) -> Plan | None:
    return FilterSettings(inputs=InputsSettings(thresholds=thresholds, **given)).plan(VMS, metrics, 1.0)


@pytest.mark.parametrize(
    ("interval", "lengths"),
    [
        (1.0, (30, 8, 4)), (float(np.float32(0.1)), (120, 80, 40)), (0.001, (120, 120, 120)), (2.0, (15, 4, 2)),
        (10.0, (10, 4, 2)), (300.0, (10, 4, 2)), (2.0**100, (10, 4, 2)), (2.0**-100, (120, 120, 120)),
    ],
)  # fmt: skip
def test_windows_are_of_seconds_with_a_least_number_of_samples(interval: float, lengths: tuple[int, ...]) -> None:
    assert InputsSettings().lengths(interval) == lengths


def test_a_plan_is_the_same_object_for_as_long_as_its_lengths_are() -> None:
    settings = FilterSettings(inputs=InputsSettings())
    known = ("cpu_ratio",)
    assert settings.plan(VMS, known, 1.0) is settings.plan(VMS, known, 1.0)
    assert settings.plan(VMS, known, 300.0) is settings.plan(VMS, known, 10.0)
    assert settings.plan(VMS, known, 300.0) is not settings.plan(VMS, known, 1.0)


def test_order_statistics_cover_configured_resource_sets() -> None:
    for sets, kept in ((("host",), False), (("*",), True), (("host", "vms"), True), ((), False)):
        plan = planned({"vms.cpu_ratio": 0.5}, ("cpu_ratio",), order_statistics=sets)
        assert plan is not None
        assert plan.order == kept


def test_patterns_choose_metrics() -> None:
    known = ("cpu_ratio", "memory_resident_bytes", "cpu_idle_ratio", "cpu_iowait_ratio")
    plan = planned({"vms.cpu_r*": 1.0, "*.memory_?esident*": 2.0}, known)
    assert plan is not None
    assert plan.names == ("cpu_ratio", "memory_resident_bytes")
    assert plan.thresholds.tolist() == [1.0, 2.0]
    assert planned({"host.cpu_ratio": 1.0}, known) is None
    plan = planned({"vms.cpu_busy_ratio": 0.5}, known)
    assert plan is not None
    assert (plan.names, plan.sources, len(plan.derived)) == (("cpu_busy_ratio",), (), 1)
    sets = {"vms": known}
    assert misnamed(["vms.cpu_ratio", "*.cpu_busy_ratio"], sets) is None
    assert misnamed(["cpu_ratio"], sets) == "cpu_ratio"
    assert misnamed(["vm.cpu_ratio"], sets) == "vm.cpu_ratio"
    assert misnamed(["vms.cpu_ration"], sets) == "vms.cpu_ration"


def test_a_frame_that_lies_about_its_columns_has_no_inputs() -> None:
    bench = Bench()
    column(bench, 0.5)
    made = bench.frame(7, 2.0, [1], [[0.0, 0.5, 0.0]], None)  # the hash is that of four columns
    bench.feed(made)
    assert bench.found(7, 1, 1)["seen"] == 1
    column(bench, 0.7, first=3.0)
    assert (bench.found(7, 1, 1)["seen"], bench.found(7, 1, 1)["valid"]) == (3, 2)


NAMES = st.one_of(
    st.sampled_from(["cpu_idle_ratio", "cpu_iowait_ratio", "memory_available_bytes", "memory_total_bytes", "a\nb"]),
    st.just("hugepages_available_bytes"),
    st.text(max_size=5),
)
HOSTILE = st.floats(width=32, allow_nan=True, allow_infinity=True)
TIMES = st.one_of(st.floats(0, 20), st.floats(allow_nan=False, allow_infinity=False))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(NAMES, min_size=1, max_size=5),
    st.lists(st.tuples(TIMES, st.lists(HOSTILE, min_size=5, max_size=5), st.integers(0, 255)), max_size=12),
    st.floats(min_value=2.0**-100, max_value=2.0**100, width=32),
)
@pytest.mark.filterwarnings("error")
def test_nothing_that_a_frame_or_table_may_say_breaks_the_stage(
    columns: list[str], ticks: list, interval: float
) -> None:
    bench = Bench(window=4, counted=2, thresholds={"*.*": 0.5})
    metrics = tuple(Metric(name, "", "gauge", 0.0, 1.0, "") for name in columns)
    bench.state(1).names = learn(None, names(metrics, "host"))
    for at, values, mark in ticks:
        matrix = np.array([values[: len(columns)]] * 2, np.float32)
        made = bench.frame(
            1, at, [1, 1], matrix, np.full(matrix.shape, mark, np.uint8), schema=schema_hash(metrics), interval=interval
        )
        bench.feed(made)
        state = bench.state(1).inputs
        if state is not None:
            assert np.isfinite(state.arrays().figures[:2]).all()  # cusum, time_above
    bench.commit()


@pytest.mark.parametrize("entities", [100, 101, 1000])
def test_the_first_newcomer_of_many_finds_a_free_slot(entities: int) -> None:
    """Else its shard would have to write the whole ring anew."""
    metrics = tuple(metric.name for metric in RESOURCE_SETS["vms"].metrics)
    found = FilterSettings(inputs=InputsSettings()).plan(VMS, metrics, 1.0)
    assert found is not None
    ring, told = Ring("key", 1, VMS, found, recent.VERSION), list[bytes]()
    ids = np.arange(1, entities + 1, dtype=np.uint64)
    ring.place(ids, 1, 1.0, told.append)
    capacity = ring.capacity
    ids[-1] = entities + 1
    assert ring.place(ids, 2, 1.0, told.append).max() < capacity
    assert capacity == ring.capacity < 1.05 * entities
    assert not any(b"EVAL" in command for command in told)
