"""The step in C says what numpy says, bit by bit where both round alike, and takes nothing that does not fit."""

from __future__ import annotations

import re
import struct
from typing import Any

import hiredis
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition import compiled
from acquisition.errors import UnavailableError
from acquisition.model import codes
from acquisition.model.derived import DERIVED
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.wire.records import recent, smoothed
from acquisition.wire.records.inputs import figure_names
from acquisition.wire.records.smoothed import EXCEPTION
from filters import kernels
from filters.kernels.numpy_step import LARGEST, Batch, advance
from filters.worker.compute import agreed
from filters.worker.inputs.plan import InputsSettings, Plan
from filters.worker.inputs.ring import Ring
from filters.worker.inputs.state import InputsState
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.name_table import learn
from filters.worker.step import native
from tests.support.inputs_bench import VMS, Bench, names
from tests.support.untested import require_native

require_native(native.STEP)

CHOICES = [("mean",), ("mean", "variance"), ("mean", "trend"), ("mean", "variance", "trend"), ()]
HEAD = bytes(smoothed.HEADER_SIZE)


def numbers(chosen: tuple[str, ...]) -> bytes:
    return bytes(kernels.REGISTRY[name].plane.number for name in chosen)


def given_step(**changes: Any) -> dict[str, Any]:
    """A step over two samples, with some things other than they should be."""
    plain: dict[str, Any] = {
        "planes": np.zeros((1, 2), np.float32), "numbers": numbers(("mean",)), "values": bytes(8), "codes": b"",
        "exceptions": b"", "dt": 1.0, "taus": np.array([5.0]), "head": HEAD, "ids": bytes(8), "raw": 1,
        "prefix": b"<", "tail": b">", "inputs": None,
    }  # fmt: skip
    return plain | changes


def call(**changes: Any) -> tuple[bytes, int, bytes, bytes | None]:
    assert native.STEP is not None
    return native.STEP.advance(*given_step(**changes).values())


@pytest.mark.parametrize(
    "name", ["HEADER", "MEAN", "LARGEST", "FIGURES_KEPT", "FORMULAS_KNOWN", "FrameHeader.tick", "ATTRIBUTES_OF_STATE"]
)
def test_definition_that_the_step_does_not_share_is_refused(name: str) -> None:
    table = agreed.table()
    value: Any = table[name]
    other = value[::-1] if isinstance(value, tuple) else value + 1
    if isinstance(value, float):
        other = value / 2
    assert native.MODULE is not None
    with pytest.raises(UnavailableError, match=re.escape(f"{name} is {value} in C and {other} in Python")):
        compiled.agree(native.MODULE, {**table, name: other})


# ---------------------------------------------------------------- averages


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"values": bytes(7)}, "values or codes"),
        ({"codes": b"\0"}, "values or codes"),
        ({"planes": np.zeros((2, 2), np.float32)}, "planes have"),
        ({"exceptions": bytes(11)}, "exceptions have"),
        ({"exceptions": np.array([(2, 0, 1.0)], EXCEPTION).tobytes()}, "exceptions must"),
        ({"exceptions": np.array([(1, 0, 1.0), (1, 0, 1.0)], EXCEPTION).tobytes()}, "exceptions must"),
        ({"dt": 0.0}, "dt must"),
        ({"dt": float("nan")}, "dt must"),
        ({"taus": np.empty(0)}, "one tau"),
        ({"taus": np.ones(3)}, "one tau"),
        ({"numbers": b"\x09"}, "known planes"),
        ({"numbers": b"\x02\x02", "planes": np.zeros((2, 2), np.float32)}, "known planes"),
        ({"numbers": numbers(("trend",))}, "the mean among them"),
        ({"head": bytes(95)}, "header"),
        ({"raw": -1}, "raw planes"),
        ({"raw": 9}, "raw planes"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, Any], message: str) -> None:
    planes = wrong.get("planes", np.zeros((1, 2), np.float32))
    with pytest.raises(ValueError, match=message):
        call(**{"planes": planes, **wrong})
    assert not planes.any()


def test_planes_that_cannot_be_changed_or_are_scattered_are_refused() -> None:
    fixed = np.zeros((1, 2), np.float32)
    fixed.flags.writeable = False
    for planes in (fixed, np.zeros((1, 4), np.float32)[:, ::2]):
        with pytest.raises((TypeError, BufferError, ValueError)):
            call(planes=planes)


def arrays(rng: np.random.Generator, rows: int, metrics: int, own_taus: bool) -> dict[str, Any]:
    """A step over a frame with all that can be wrong with a sample."""
    size = rows * metrics
    x = rng.normal(50, 20, size).astype(np.float32)
    spoilt = rng.random(size) < 0.1
    x[spoilt] = rng.choice(np.array([np.nan, np.inf, -np.inf, 2 * LARGEST, LARGEST], np.float32), int(spoilt.sum()))
    kinds = rng.choice([0, codes.RANGE, codes.MISSING, codes.OUTLIER_FLAG, codes.OUTLIER_FLAG | codes.RATE], size)
    flags = np.where(rng.random(size) < 0.15, kinds, 0).astype(np.uint8)
    exceptions = np.flatnonzero(rng.random(size) < 0.1)
    ages = rng.choice([0.0, 1.0, 7.5, np.inf], exceptions.size).astype(np.float32)
    planes = rng.normal(0, 1, (3, size)).astype(np.float32)
    planes[:, exceptions[np.isinf(ages)]] = np.nan
    tau = rng.uniform(0.5, 60, metrics if own_taus else 1)
    dt = float(rng.choice([0.001, 1.0, 1.01, 300.0]))
    return {"x": x, "codes": flags, "exceptions": exceptions, "ages": ages, "planes": planes, "tau": tau, "dt": dt}


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([(0, 5), (1, 1), (3, 4), (17, 15), (101, 15), (1, 300), (2, 257)]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(CHOICES),
)
def test_averages_equal_numpys(
    seed: int, shape: tuple[int, int], own_taus: bool, coded: bool, names: tuple[str, ...]
) -> None:
    step = arrays(np.random.default_rng(seed), *shape, own_taus)
    chosen = tuple(kernels.REGISTRY[name] for name in names)
    planes = step["planes"][: len(names)].copy()
    tau = np.tile(step["tau"], shape[0]) if own_taus else step["tau"]
    want = advance(
        chosen,
        Batch(
            np.array([step["x"].size], np.intp), step["x"], step["codes"] if coded else None, np.array([step["dt"]]),
            tau, planes.copy(), step["exceptions"], step["ages"],
        ),
    )  # fmt: skip
    table = np.zeros(step["exceptions"].size, EXCEPTION)
    table["index"], table["age"] = step["exceptions"], step["ages"]
    values = step["x"].tobytes()
    exceptions, invalid, record, row = call(
        planes=planes, numbers=numbers(names), values=values, codes=step["codes"].tobytes() if coded else b"",
        exceptions=table.tobytes(), dt=step["dt"], taus=step["tau"], ids=b"ids", prefix=b"SET", tail=b"tail",
    )  # fmt: skip
    found = np.frombuffer(exceptions, EXCEPTION)
    assert found["index"].tolist() == want.exceptions.tolist()
    assert found["code"].tolist() == want.codes.tolist()
    np.testing.assert_array_equal(found["age"], want.ages)
    assert invalid == want.codes.tobytes().translate(codes.IS_INVALID).count(1)
    # exp() of two libraries may differ in the last digit; values are of tens, and their squares of thousands
    np.testing.assert_allclose(planes, want.planes, rtol=2e-6, atol=1e-3)
    head = bytearray(HEAD)
    struct.pack_into("<I", head, 12, found.size)
    value = bytes(head) + b"ids" + values + planes.tobytes() + exceptions
    assert record == b"SET%d\r\n%btail" % (len(value), value)
    assert row is None


# ---------------------------------------------------------------- decision inputs

NAMES = [
    "cpu_idle_ratio", "cpu_iowait_ratio", "other", "memory_available_bytes", "memory_total_bytes",
    "network_receive_bytes_per_second", "network_transmit_bytes_per_second", "link_speed_bytes_per_second",
    "hugepages_available_bytes", "cpu_count", "tasks_runnable", "vms_suffering_ratio", "pressure_cpu_some_ratio",
]  # fmt: skip
METRICS = tuple(Metric(name, "", "gauge", 0.0, 1e19, "") for name in NAMES)
WITHOUT_EXTRA = METRICS[:8]  #: what older probes send
WITHOUT_SUFFERING = (*METRICS[:-2], METRICS[-1])
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


def bench(
    step: native.Step | None, lengths: tuple[int, int, int], order: bool, metrics: tuple[Metric, ...] = METRICS
) -> Bench:
    thresholds = {"*.other": 0.4, **{f"*.{name}": 0.5 for name in DERIVED}}
    made = Bench(*lengths, thresholds, ("*",) if order else (), native=step)
    made.state(1).names = learn(None, names(metrics, "host"))
    return made


@settings(max_examples=150, deadline=None)
@given(
    st.lists(FRAME, min_size=1, max_size=25),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(0, 5),
    st.booleans(),
    st.booleans(),
    st.sampled_from([METRICS, WITHOUT_EXTRA, WITHOUT_SUFFERING]),
)
@pytest.mark.filterwarnings("ignore")
def test_both_steps_say_the_same(
    frames: list, window: int, counted: int, plateau: int, order: bool, at_once: bool, metrics: tuple[Metric, ...]
) -> None:
    lengths = window, min(counted, window), min(plateau, window)
    benches = [bench(step, lengths, order, metrics) for step in (native.STEP, None)]
    at = 0.0
    for seed, seconds, entities, scale, odd in frames:
        at += seconds
        values, marks = values_of(seed, entities, scale, odd)
        ids = np.random.default_rng(seed).permutation(50)[:entities] + 1  # entities come, go, and change places
        for each in benches:
            cells = [each_of[:, : len(metrics)] for each_of in (values, marks)]
            each.feed(each.frame(1, at, ids.tolist(), *cells, schema=schema_hash(metrics)))
        equal(*(each.state(1).inputs for each in benches))
        if not at_once:
            equal_commits(benches)
    equal_commits(benches)


def equal(ours: InputsState | None, numpys: InputsState | None) -> None:
    assert ours is not None
    assert numpys is not None
    mine, theirs = ours.arrays(), numpys.arrays()
    for name in ("since", "bursts", "seen", "counts", "codes", "window", "lately", "slots"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name), name)
    if ours.plan.order:
        ordered = mine.ordered[:, :, : ours.plan.window]
        np.testing.assert_array_equal(ordered, np.sort(theirs.window, axis=1).transpose(0, 2, 1))
    for place, name in enumerate(figure_names(ours.plan.head.figures)):
        if name != "cusum":  # of averages, whose last digit may differ
            np.testing.assert_array_equal(mine.figures[place], theirs.figures[place], name)
    np.testing.assert_allclose(mine.figures[0], theirs.figures[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mine.derived, theirs.derived, rtol=1e-5, atol=1e-30)


def equal_commits(benches: list[Bench]) -> None:
    """Both would write the same, but for the digits of averages and what is random."""
    kept = []
    for each in benches:
        reader = hiredis.Reader()
        reader.feed(each.commit())
        commands = []
        while (command := reader.gets()) is not False:
            commands.append(command)
        kept.append(commands)
    mine, theirs = kept
    assert [command[:2] for command in mine] == [command[:2] for command in theirs]
    for one, other in zip(mine, theirs, strict=True):
        assert [len(argument) for argument in one] == [len(argument) for argument in other]
        if one[0] == b"SETRANGE" and len(one[3]) > 16 and not is_seed(one):
            assert one == other


def is_seed(command: list[bytes]) -> bool:
    """Whether it writes averages: these have the step in front, and no clock behind it."""
    return command[3][4:8] == bytes(4)


# ---------------------------------------------------------------- what does not fit


def plan(**given: Any) -> Plan:
    inputs = InputsSettings(order_statistics=("*",), **given)
    made = FilterSettings(inputs=inputs).plan(resource_set_id("host"), tuple(NAMES), 1.0)
    assert made is not None
    return made


def inputs_step(entities: int = 3, **changes: Any) -> dict[str, Any]:
    """A step with inputs, with some things of these other than they should be."""
    found = plan()
    state = InputsState(found, Ring("key", 1, VMS, found, recent.VERSION))
    state._lay_out(bytes(8 * entities))
    given = {
        "memory": state.memory, "packed": found.packed, "dt": 1.0, "seconds": 1.0, "step": 7, "first": 1,
        "missing": 2, "begins": False, "row_prefix": b"SETRANGE", "capacity": 4, "rows_at": 64,
    } | changes  # fmt: skip
    samples = entities * len(NAMES)
    return given_step(
        planes=np.zeros((1, samples), np.float32), values=bytes(4 * samples), codes=bytes(samples),
        inputs=tuple(given.values()),
    )  # fmt: skip


def refused(step: dict[str, Any]) -> None:
    assert native.STEP is not None
    with pytest.raises((ValueError, OverflowError), match=r"plan|length|fit|slot|missing|int"):
        native.STEP.advance(*step.values())
    assert not step["planes"].any()


def test_it_takes_what_fits() -> None:
    assert native.STEP is not None
    found = native.STEP.advance(*inputs_step().values())
    assert found[3] is not None
    assert found[3].startswith(b"SETRANGE$")


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory": bytearray(7)}, {"packed": b"x"}, {"packed": b""}, {"missing": 30}, {"missing": 8}, {"capacity": 0},
        {"step": 1},
    ],
)  # fmt: skip
def test_inputs_that_do_not_fit_are_refused_and_nothing_is_written(wrong: dict[str, Any]) -> None:
    refused(inputs_step(**wrong))


@pytest.mark.parametrize("at", range(9))
@pytest.mark.parametrize("value", [-1, 0x7FFFFFFF])
def test_a_plan_that_lies_is_refused(at: int, value: int) -> None:
    packed = bytearray(plan().packed or b"")
    struct.pack_into("=i", packed, 4 * at, value)
    if (at, value) != (8, 0x7FFFFFFF):  # a ring may be as deep as it likes
        refused(inputs_step(packed=bytes(packed)))


def test_counts_that_a_damaged_record_claims_lead_nowhere() -> None:
    assert native.STEP is not None
    step = inputs_step()
    memory = step["inputs"][0]
    memory[48:-12] = b"\xff" * (len(memory) - 60)  # all but header and slots
    native.STEP.advance(*step.values())


def test_a_formula_that_it_does_not_know_is_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan().packed is not None
    monkeypatch.setitem(DERIVED, "of_tomorrow", DERIVED["cpu_busy_ratio"])
    found = bench(native.STEP, (5, 3, 2), order=True)
    found.inputs.thresholds["*.of_tomorrow"] = 0.5  # type: ignore[index]
    values, marks = values_of(1, 3, 1.0, 0.0)
    found.feed(found.frame(1, 1.0, [1, 2, 3], values, marks, schema=schema_hash(METRICS)))
    state = found.state(1).inputs
    assert state is not None
    assert state.plan.packed is None
    assert state.arrays().seen.tolist() == [1, 1, 1]
