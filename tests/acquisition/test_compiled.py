"""Steps in C that were compiled from older sources are refused in words."""

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
        UnavailableError, match=r"/x/_step.so was compiled from older sources, it has no run, walk: comp"
    ):
        compiled.complete(module, "advance", "run", "walk")
