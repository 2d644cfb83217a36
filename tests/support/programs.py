"""Programs of ``experiments``, called in this process."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from tests.support import ROOT


def main_of(name: str) -> Callable[[list[str]], int]:
    """What ``python -m experiments.NAME`` calls."""
    module = f"experiments.{name}.__main__" if (ROOT / "experiments" / name).is_dir() else f"experiments.{name}"
    found: Callable[[list[str]], int] = importlib.import_module(module).main
    return found
