"""Steps in C that were compiled from other sources are refused in words."""

from __future__ import annotations

from types import ModuleType

import pytest

from acquisition import compiled
from acquisition.errors import UnavailableError


def test_a_step_of_older_sources_is_refused_in_words() -> None:
    module = ModuleType("_step")
    module.__file__ = "/x/_step.so"
    module.advance = print  # type: ignore[attr-defined]
    assert compiled.complete(module, "advance") is module
    with pytest.raises(
        UnavailableError, match=r"/x/_step.so was compiled from older sources, without run, walk: recomp"
    ):
        compiled.complete(module, "advance", "run", "walk")


def step_that_takes_over(**taken: object) -> ModuleType:
    module = ModuleType("_step")
    module.__file__ = "/x/_step.so"
    module.AGREED = taken  # type: ignore[attr-defined]
    return module


def test_step_that_agrees_is_taken() -> None:
    module = step_that_takes_over(HEADER=96, NAMES=("a", "b"))
    assert compiled.agree(module, {"NAMES": ("a", "b"), "HEADER": 96}) is module


@pytest.mark.parametrize(
    ("defined", "message"),
    [
        ({"HEADER": 104, "NAMES": ("a", "b")}, r"HEADER is 96 in C and 104 in Python: recompile it"),
        ({"HEADER": 96, "NAMES": ("b", "a")}, r"NAMES is \('a', 'b'\) in C and \('b', 'a'\) in Python"),
        ({"HEADER": 96}, r"NAMES is \('a', 'b'\) in C and nothing in Python"),
        ({"HEADER": 96, "NAMES": ("a", "b"), "NEW": 1}, r"NEW is nothing in C and 1 in Python"),
        ({"HEADER": 1, "NAMES": ()}, r"HEADER is 96 in C and 1 in Python; NAMES is"),
    ],
)
def test_step_that_differs_is_refused_with_both_values(defined: dict[str, object], message: str) -> None:
    with pytest.raises(UnavailableError, match=message):
        compiled.agree(step_that_takes_over(HEADER=96, NAMES=("a", "b")), defined)


def test_offsets_of_fields_are_those_of_the_structure() -> None:
    assert compiled.offsets((("magic", "4s"), ("kind", "B"), ("host", "Q"))) == {"magic": 0, "kind": 4, "host": 5}
