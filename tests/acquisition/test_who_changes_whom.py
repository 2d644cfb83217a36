"""No object sets fields of another: parts have commands with names, read from the source of every module."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support import ROOT

#: Where objects live long and are shared.
ROOMS = (
    "acquisition/link", "acquisition/outbox", "deploy", "filters/judging", "filters/runtime", "filters/worker",
    "probes",
)  # fmt: skip


def targets(node: ast.AST) -> Iterator[ast.expr]:
    """What an assignment assigns to, one by one."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from parts(target)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        yield from parts(node.target)


def parts(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from parts(part)
    else:
        yield target.value if isinstance(target, ast.Starred) else target


@pytest.mark.parametrize("room", ROOMS)
def test_no_object_sets_fields_of_another(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{target.lineno} sets {ast.unparse(target)}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        for target in targets(node)
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) != "self"
    ]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)
