"""What checks ask about a reading: the same answers in Python and in C."""

from __future__ import annotations

from array import array
from math import inf, isnan, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.sampling import columns, native
from tests.support.untested import require_native

require_native(native.PROCESSES)

WIDTH = 4
cells = st.sampled_from([0.0, 1.0, -1.0, nan, inf, -inf, 3.0, 1e300, -1e300, 0.5]) | st.floats(width=64)
readings = st.integers(0, 6).flatmap(lambda rows: st.lists(cells, min_size=rows * WIDTH, max_size=rows * WIDTH))
limits = st.lists(st.floats(-10, 1e308), min_size=WIDTH, max_size=WIDTH)


def both(name: str, *arguments: Any) -> list[Any]:
    return [getattr(module, name)(*arguments) for module in (native.COLUMNS, columns)]


@given(readings, limits, limits)
def test_outside(values: list[float], lows: list[float], highs: list[float]) -> None:
    compiled, plain = both("outside", array("d", values), array("d", lows), array("d", highs))
    expected = {i % WIDTH for i, x in enumerate(values) if x < lows[i % WIDTH] or x > highs[i % WIDTH]}
    assert compiled == plain == sorted(expected)


@given(readings, st.data())
def test_unmarked(values: list[float], data: st.DataObject) -> None:
    codes = bytearray(data.draw(st.lists(st.sampled_from([0, 1, 2]), min_size=len(values), max_size=len(values))))
    compiled, plain = both("unmarked", array("d", values), codes)
    assert compiled == plain == any(isnan(x) and code == 0 for x, code in zip(values, codes, strict=True))


@given(readings, st.floats(0, 2))
def test_unbalanced(values: list[float], tolerance: float) -> None:
    compiled, plain = both("unbalanced", array("d", values), WIDTH, 0, 2, 1, 3, tolerance)
    assert compiled == plain


@given(readings)
def test_pack(values: list[float]) -> None:
    compiled, plain = both("pack", array("d", values))
    assert [str(x) for x in array("f", compiled)] == [str(x) for x in array("f", plain)]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("outside", (array("d", [1.0]), array("d"), array("d"))),
        ("outside", (array("d", [1.0]), array("d", [0.0, 0.0]), array("d", [0.0, 0.0]))),
        ("outside", (array("d", [1.0]), array("d", [0.0]), array("d", [0.0, 0.0]))),
        ("unmarked", (array("d", [1.0]), bytearray(2))),
        ("unbalanced", (array("d", [1.0]), 0, 0, 0, 0, 0, 1.0)),
        ("unbalanced", (array("d", [1.0]), 1, 0, 1, 0, 0, 1.0)),
        ("pack", (b"1234567",)),
    ],
)
def test_what_does_not_fit_is_refused(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        getattr(native.COLUMNS, name)(*arguments)
