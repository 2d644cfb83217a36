"""The rooms of ``experiments`` import one way: programs import rooms, a room only those below it, and no program
another."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from experiments.__main__ import programs
from tests.support import ROOT

#: Room -> the rooms that it may import.
ROOMS: dict[str, set[str]] = {
    "processes": set(),
    "emulation": {"processes"},
    "simulation": set(),
    "harness": {"processes", "emulation"},
    "testbed": {"processes", "emulation", "harness"},  # a program as well
    "hosts": {"processes", "testbed"},
}


def imported(path: Path) -> set[str]:
    """The rooms and programs that a file names, in imports and where it starts a child program."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            name = node.module or ""
            full = [f"{name}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            full = [node.value]
        else:
            full = []
        found |= {name.split(".")[1] for name in full if name.startswith("experiments.")} - {""}
    return found


@pytest.mark.parametrize("name", dict.fromkeys([*ROOMS, *programs()]))
def test_imports_run_one_way(name: str) -> None:
    own = ROOT / "experiments" / name
    files = sorted(own.rglob("*.py")) if own.is_dir() else [own.with_suffix(".py")]
    allowed = {name} | ROOMS.get(name, set(ROOMS))
    for path in files:
        assert imported(path) <= allowed, f"{path.relative_to(ROOT)} imports {imported(path) - allowed}"


def test_every_directory_is_a_room_or_a_program() -> None:
    packages = {path.parent.name for path in (ROOT / "experiments").glob("*/__init__.py")}
    assert packages <= {*ROOMS, *programs()}
