"""The step of the decision inputs in C says what numpy says: all figures, windows and rows, whatever frames hold."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.model import codes
from acquisition.model.derived import DERIVED
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.wire.inputs import DERIVED_PLANES, PLANES, plane_count
from filters.worker.inputs import native
from filters.worker.inputs.plan import InputsSettings, Plan
from filters.worker.inputs.state import InputsState
from filters.worker.name_table import learn
from tests.support.inputs_bench import Bench, names
from tests.support.untested import require_native

require_native(native.ADVANCE)

NAMES = [
    "cpu_idle_ratio", "cpu_iowait_ratio", "other", "memory_available_bytes", "memory_total_bytes",
    "network_receive_bytes_per_second", "network_transmit_bytes_per_second", "link_speed_bytes_per_second",
]  # fmt: skip
METRICS = tuple(Metric(name, "", "gauge", 0.0, 1e19, "") for name in NAMES)
CODES = [0] * 6 + [codes.OUTLIER_FLAG, codes.RANGE, codes.MISSING, codes.OUTLIER_FLAG | codes.RANGE, 0xFF]
FRAME = st.tuples(
    st.integers(0, 2**32 - 1),  # seed of the values
    st.sampled_from([1, 1, 1, 2, 5, 9]),  # seconds since the frame before
    st.integers(1, 40),  # entities
    st.sampled_from([1.0, 1e-30, 1e19, -1.0]),  # scale
    st.floats(0, 0.5),  # share of odd values
)


def values_of(seed: int, entities: int, scale: float, odd: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    shape = (entities, len(METRICS))
    values = np.round(rng.random(shape), 1).astype(np.float32) * np.float32(scale)  # many ties
    values[rng.random(shape) < odd] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38])
    return values, rng.choice(CODES, shape).astype(np.uint8)


def bench(step: native.Advance | None, window: int, counted: int, plateau: int) -> Bench:
    thresholds = {"*.other": 0.4, **{f"*.{name}": 0.5 for name in DERIVED}}
    made = Bench(window, counted, plateau, thresholds, native=step)
    made.state(1).names = learn(None, names(METRICS, "host"))
    return made


@settings(max_examples=150, deadline=None)
@given(st.lists(FRAME, min_size=1, max_size=25), st.integers(1, 12), st.integers(1, 12), st.integers(0, 5))
@pytest.mark.filterwarnings("ignore")
def test_both_steps_say_the_same(frames: list, window: int, counted: int, plateau: int) -> None:
    lengths = window, min(counted, window), min(plateau, window)
    benches = [bench(step, *lengths) for step in (native.ADVANCE, None)]
    at = 0.0
    for seed, seconds, entities, scale, odd in frames:
        at += seconds
        values, marks = values_of(seed, entities, scale, odd)
        for each in benches:
            each.feed(each.frame(1, at, list(range(1, entities + 1)), values, marks, schema=schema_hash(METRICS)))
        equal(*(each.state(1).inputs for each in benches))
        kept = [b"".join(bytes(piece) for piece in each.partition.commit()[0]) for each in benches]
        assert len(kept[0]) == len(kept[1])


def equal(ours: InputsState | None, numpys: InputsState | None) -> None:
    assert ours is not None
    assert numpys is not None
    np.testing.assert_array_equal(ours.window, numpys.window)
    np.testing.assert_array_equal(ours.sorted_window(), np.sort(numpys.window, axis=1).transpose(0, 2, 1))
    np.testing.assert_array_equal(ours.lately, numpys.lately)
    sources = len(ours.plan.sources)
    for name, mine, theirs in zip(PLANES, ours.planes, numpys.planes, strict=False):
        np.testing.assert_array_equal(mine[:sources], theirs[:sources], name)  # of what frames carry: bit by bit
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-30, err_msg=name)
    np.testing.assert_allclose(ours.derived, numpys.derived, rtol=1e-5, atol=1e-30)


def plan(**given: int) -> Plan:
    made = InputsSettings(**given).plan(resource_set_id("host"), tuple(NAMES))
    assert made is not None
    return made


def arguments(entities: int = 3) -> list:
    found = plan()
    c, d, n = found.columns, len(found.derived), found.window
    shapes = [
        (plane_count(found.plateau), c, entities), (c, n, entities), (c, entities, n), (found.plateau, c, entities),
        (len(DERIVED_PLANES), d, entities),
    ]  # fmt: skip
    state = [np.zeros(shape, np.float32) for shape in shapes]
    samples = entities * len(NAMES)
    packed = native.pack_plan(found, np.ones(d))
    return [*state, packed, bytes(4 * samples), bytes(samples), np.zeros(samples, np.float32), 1.0, 1.0, 7, 2]


def test_it_takes_what_fits() -> None:
    assert native.ADVANCE is not None
    assert len(native.ADVANCE(*arguments())) == 9 * 3 * plan().columns


@pytest.mark.parametrize("place", range(9))
def test_what_does_not_fit_is_refused_and_nothing_is_written(place: int) -> None:
    assert native.ADVANCE is not None
    given = arguments()
    given[place] = np.zeros(1, np.float32) if place < 5 else b"x"
    before = [array.copy() for array in given[:5]]
    with pytest.raises(ValueError, match=r"plan|length"):
        native.ADVANCE(*given)
    for array, old in zip(given[:5], before, strict=True):
        np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("value", [-1, 0x7FFFFFFF])
def test_a_plan_that_lies_is_refused(at: int, value: int) -> None:
    assert native.ADVANCE is not None
    given = arguments()
    packed = bytearray(given[5])
    struct.pack_into("=i", packed, 4 * at, value)
    given[5] = bytes(packed)
    with pytest.raises(ValueError, match=r"plan|length|fit"):
        native.ADVANCE(*given)


def test_counts_that_a_damaged_record_claims_lead_nowhere() -> None:
    assert native.ADVANCE is not None
    given = arguments()
    for claim in (1e30, -5.0, float("nan")):
        given[0][PLANES.index("valid")] = claim
        native.ADVANCE(*given)


def test_a_formula_that_it_does_not_know_is_left_to_numpy() -> None:
    assert native.can_compute(plan())
    unknown = plan()
    assert not native.can_compute(
        Plan(**{**vars(unknown), "names": (*unknown.names[:-1], "of_tomorrow")})  # the last one is a derived column
    )
