"""Programs of ``experiments`` wait for conditions: a pause of a fixed length stands only between two looks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support import ROOT


def pauses(node: ast.AST) -> Iterator[int]:
    """The lines of ``time.sleep(NUMBER)`` that are in no loop."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.While | ast.For) or (isinstance(child, ast.FunctionDef) and child.name == "pause"):
            continue
        sleeps = isinstance(child, ast.Call) and ast.unparse(child.func) == "time.sleep"
        if sleeps and isinstance(child.args[0], ast.Constant):
            yield child.lineno
        yield from pauses(child)


def test_no_program_waits_for_a_moment() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in (ROOT / "experiments").rglob("*.py")
        for line in pauses(ast.parse(path.read_text()))
    ]
    assert not found
