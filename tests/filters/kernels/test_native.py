"""The step in C is the step of filters.kernels.numpy_step, and takes nothing that does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.model import codes
from acquisition.wire.smoothed import EXCEPTION
from filters import kernels
from filters.kernels import native
from filters.kernels.numpy_step import LARGEST, Batch, advance
from tests.support.untested import require_native

require_native(native.ADVANCE)

CHOICES = [("mean",), ("mean", "variance"), ("mean", "trend"), ("mean", "variance", "trend"), ()]


def numbers(names: tuple[str, ...]) -> bytes:
    return bytes(kernels.REGISTRY[name].plane.number for name in names)


def call(**changes: Any) -> tuple[bytes, int]:
    """A step over two samples, with one thing other than it should be."""
    assert native.ADVANCE is not None
    given: dict[str, Any] = {
        "planes": np.zeros((1, 2), np.float32), "numbers": numbers(("mean",)), "values": bytes(8), "codes": b"",
        "exceptions": b"", "dt": 1.0, "taus": np.array([5.0]),
    }  # fmt: skip
    return native.ADVANCE(*(given | changes).values())


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
def test_equals_numpy(seed: int, shape: tuple[int, int], own_taus: bool, coded: bool, names: tuple[str, ...]) -> None:
    assert native.ADVANCE is not None
    rng = np.random.default_rng(seed)
    step = arrays(rng, *shape, own_taus)
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
    exceptions, unused = native.ADVANCE(
        planes, numbers(names), step["x"].tobytes(), step["codes"].tobytes() if coded else b"", table.tobytes(),
        step["dt"], step["tau"],
    )  # fmt: skip
    found = np.frombuffer(exceptions, EXCEPTION)
    assert found["index"].tolist() == want.exceptions.tolist()
    assert found["code"].tolist() == want.codes.tolist()
    np.testing.assert_array_equal(found["age"], want.ages)
    assert unused == int(((want.codes & codes.CODE_MASK) != codes.VALID).sum())
    # exp() of two libraries may differ in the last digit; values are of tens, and their squares of thousands
    np.testing.assert_allclose(planes, want.planes, rtol=2e-6, atol=1e-3)
