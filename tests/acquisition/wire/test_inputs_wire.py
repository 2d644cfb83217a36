"""The section of decision inputs: golden bytes, round trips, and what is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.wire.records import inputs as wire
from tests.support import FIXTURES
from tests.support.sections import section

GOLDEN = FIXTURES / "frames" / "inputs.bin"
REASONS = ("", "short", "shape", "names")


def refusal(data: bytes, entities: int = 3, decode: Callable[..., object] = wire.decode) -> str:
    """Why ``data`` is refused, empty when it is not."""
    try:
        decode(data, entities)
    except FrameError as error:
        return error.reason
    return ""


def test_golden_bytes() -> None:
    assert wire.encode(section()) == GOLDEN.read_bytes()
    assert wire.HEADER.size == 48
    assert len(GOLDEN.read_bytes()) % 8 == 0


def test_a_section_reads_back() -> None:
    found = wire.decode(GOLDEN.read_bytes(), 3)
    head = found.head
    assert (head.step, head.first, head.counted, head.plateau, head.least) == (16, 3, 5, 4, 10)
    assert (head.window_seconds, head.counted_seconds, head.plateau_seconds) == (30.0, 5.0, 4.0)
    assert found.names == ("metric_0", "metric_1")
    assert found.figure("median").tolist() == [[24.0, 25.0, 26.0], [27.0, 28.0, 29.0]]
    assert found.tally("above").tolist() == [[4, 5, 6], [7, 0, 1]]
    assert (found.derived.shape, found.codes.tolist()) == ((5, 1, 3), [[2, 2, 2]])
    assert (found.seen.tolist(), found.sources.tolist(), found.thresholds.tolist()) == ([8, 8, 8], [0], [0.5, 0.5])


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("plateau", [0, 4])
@pytest.mark.parametrize(("columns", "entities", "derived"), [(1, 0, 0), (1, 1, 1), (3, 4, 2), (2, 5, 0), (200, 1, 3)])
def test_shapes(columns: int, entities: int, derived: int, plateau: int, ordered: bool) -> None:
    bursts = len(wire.BURST_FIGURES) * (derived > 0)
    names = [f"m{n}" for n in range(columns)]
    made = section(names, entities, derived, plateau=plateau, ordered=ordered, bursts=bursts)
    data = wire.encode(made)
    found = wire.decode(data, entities)
    assert found.head.places(entities).size == len(data)
    assert wire.encode(found) == data
    for name in made._fields:
        assert np.array_equal(getattr(found, name), getattr(made, name)), name


def test_only_what_is_kept_can_be_asked_for() -> None:
    found = wire.decode(wire.encode(section(plateau=0, ordered=False)), 3)
    assert found.figure("time_above").shape == (2, 3)
    for name in ("lowest", "median", "mean"):
        with pytest.raises(KeyError):
            found.figure(name)


@pytest.mark.parametrize(
    "changes",
    [
        {"columns": 0}, {"derived": 3}, {"figures": 1}, {"figures": 7}, {"window": 0}, {"window": 256, "depth": 256},
        {"counted": 0}, {"counted": 31}, {"plateau": 31}, {"depth": 29}, {"names_size": 90}, {"bursts": 5},
        {"bursts": len(wire.BURST_FIGURES)},
    ],
)  # fmt: skip
def test_headers_that_contradict_themselves(changes: dict[str, int]) -> None:
    data = wire.encode(section())
    head = wire.unpack_head(data)._replace(**changes)
    assert refusal(wire.HEADER.pack(*head) + data[wire.HEADER.size :]) == "shape"
    assert refusal(data, entities=2) == "shape"


@given(st.integers(0, len(GOLDEN.read_bytes()) - 1), st.integers(0, 255))
def test_one_byte_more_or_less_or_other_never_crashes(at: int, value: int) -> None:
    data = GOLDEN.read_bytes()
    for spoilt in (data[:at], data + bytes((value,)), data[:at] + bytes((value,)) + data[at + 1 :]):
        assert refusal(spoilt) in REASONS


@given(st.binary(max_size=300), st.integers(0, 5))
def test_any_bytes(data: bytes, entities: int) -> None:
    assert refusal(data, entities) in REASONS
