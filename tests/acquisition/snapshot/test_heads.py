"""Headers side by side: in C as numpy defines them, for records of all kinds and for what is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition import compiled
from acquisition.errors import FrameError, UnavailableError
from acquisition.snapshot.reading import heads
from acquisition.wire.records import smoothed
from tests.support.scene import METRICS, record


@st.composite
def values(draw: st.DrawFn) -> list[bytes | None]:
    found: list[bytes | None] = []
    for host in range(draw(st.integers(0, 4))):
        ids = list(range(draw(st.integers(1, 3))))
        last = len(ids) * len(METRICS)
        places = draw(st.lists(st.integers(0, last), max_size=3))  # one of them lies outside
        value = record(
            host, 7, ids, np.ones((len(ids), len(METRICS))), 5, exceptions=[(place, 3, 1.0) for place in places],
            section=bytes(8 * draw(st.integers(0, 2))),
        )  # fmt: skip
        at = draw(st.integers(0, len(value) - 1))
        changed = value[:at] + bytes((draw(st.integers(0, 255)),)) + value[at + 1 :]
        found.append(draw(st.sampled_from([value, value, value[:at], changed, value + b"more", b"", None])))
    return found


@settings(deadline=None, max_examples=300)
@given(values())
def test_headers_are_those_of_the_definition(given_values: list[bytes | None]) -> None:
    found, defined = heads.heads_of(given_values), heads.defined(given_values)
    assert found.fields.tobytes() == defined.fields.tobytes()
    assert found.sound.tolist() == defined.sound.tolist() == [_is_record(value) for value in given_values]
    assert found.ids == defined.ids
    for value, ids, is_sound in zip(given_values, found.ids, found.sound.tolist(), strict=True):
        assert ids == (smoothed.decode(value).ids.tobytes() if is_sound and value else b"")


def _is_record(value: bytes | None) -> bool:
    try:
        smoothed.check(value or b"")
    except FrameError:
        return False
    return True


def test_header_that_c_does_not_share_is_refused() -> None:
    step = pytest.importorskip("acquisition.snapshot._heads")
    with pytest.raises(UnavailableError, match="INPUTS_SIZE_AT is 36 in C and 40 in Python"):
        compiled.agree(step, {**smoothed.in_c(), "INPUTS_SIZE_AT": 40})
