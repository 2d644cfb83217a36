"""Plain words in strings, docstrings and documents; short summaries of modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

_WORST = re.compile(r"\b(told|tells|anew|[Ww]hoever|heard of|is none|who asks|put aside)\b")
_ROOMS = ("acquisition", "probes", "filters", "deploy", "experiments")
_MOST = 100  #: lines; each where it is the right word
_MOST_CLAUSES = 5  #: docstrings that begin with a clause; one of them is printed in /openapi.json
_SUMMARY = 80  #: characters of a module's first line
_NAME = 60  #: characters of a test after "test_"
_NO_NOUN = re.compile(
    r"(an?|the|one|two|three|all|any|each|every|everything|some|more|other|no|not|its?|he|they|this|that|these|those|"
    r"there|who|what|which|whose|whom|whatever|whoever|where|when|how|why|whether|since|as|at|by|for|from|if|in|of|on|"
    r"to|with|and|or|is|are)\b",
    re.IGNORECASE,
)


def texts_of(file: Path) -> Iterator[str]:
    """The strings of a Python file that hold words, docstrings among them."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def modules() -> list[Path]:
    """The Python files whose summaries are checked."""
    folders = [*(ROOT / room for room in _ROOMS), ROOT / "tests/support"]
    return [file for folder in folders for file in sorted(folder.rglob("*.py"))]


def fault_of(summary: str) -> str:
    """What is wrong with a module's summary, or nothing."""
    if len(summary) > _SUMMARY:
        return f"{len(summary)} characters"
    if not summary.endswith("."):
        return "not one sentence on one line"
    return "begins with no noun or verb" if _NO_NOUN.match(summary) else ""


@pytest.mark.parametrize("summary", ["What a frame is.", "The frame.", "Frame: " + "x" * 80 + ".", "Frame"])
def test_weak_summary_is_refused(summary: str) -> None:
    assert fault_of(summary)


def test_module_summaries_are_short_and_begin_with_noun_or_verb() -> None:
    summaries = {file: (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0] for file in modules()}
    found = [
        f"{file.relative_to(ROOT)}: {fault}: {text}" for file, text in summaries.items() if (fault := fault_of(text))
    ]
    assert not found, "\n".join(found)


def sources() -> list[Path]:
    """The Python files of all rooms."""
    return [file for room in _ROOMS for file in sorted((ROOT / room).rglob("*.py"))]


def test_docstrings_begin_with_what_is_returned() -> None:
    nodes = [(file, node) for file in sources() for node in ast.walk(ast.parse(file.read_text()))]
    found = [
        f"{file.relative_to(ROOT)}: {node.name}"
        for file, node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and (ast.get_docstring(node) or "").startswith(("What ", "Whatever "))
    ]
    assert len(found) <= _MOST_CLAUSES, "\n".join(found)


def test_worst_patterns_are_rare() -> None:
    texts = [(file, text) for file in sources() for text in texts_of(file)]
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts += [(file, file.read_text()) for file in pages]
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file, text in texts
        for line in text.splitlines()
        if _WORST.search(line)
    ]
    assert len(found) <= _MOST, "\n".join(found)


def test_test_names_have_at_most_sixty_characters() -> None:
    names = [
        node.name.removeprefix("test_")
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    assert [name for name in names if len(name) > _NAME] == []
