"""Plain words where people read: strings, docstrings and documents hold few of the worst patterns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support import ROOT

_WORST = re.compile(r"\b(told|tells|anew|[Ww]hoever|heard of|is none|who asks|put aside)\b")
_ROOMS = ("acquisition", "probes", "filters", "deploy", "experiments")
_MOST = 100  #: lines; each where it is the right word


def texts_of(file: Path) -> Iterator[str]:
    """The strings of a Python file that hold words, docstrings among them."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def test_worst_patterns_are_rare() -> None:
    files = [file for room in _ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    texts = [(file, text) for file in files for text in texts_of(file)]
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts += [(file, file.read_text()) for file in pages]
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file, text in texts
        for line in text.splitlines()
        if _WORST.search(line)
    ]
    assert len(found) <= _MOST, "\n".join(found)
