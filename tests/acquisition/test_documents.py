"""What README and docs list is what the code has."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from acquisition.errors import EXIT_CODES
from acquisition.model import codes
from tests.support import ROOT

DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
PACKAGES = "acquisition|probes|filters|deploy|tests|experiments|docs"


def test_configuration_reference_is_what_the_command_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "acquisition", "config"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    assert f"```toml\n{printed.strip()}\n```" in (ROOT / "docs/configuration.md").read_text(), (
        "write docs/configuration.md again: see its first lines"
    )


@pytest.mark.parametrize("code", EXIT_CODES)
def test_every_exit_code_is_documented(code: int) -> None:
    assert re.search(rf"^\| {code} \|", (DOCS / "exit-codes.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", codes.NAMES)
def test_every_validity_code_is_documented(name: str) -> None:
    assert re.search(rf"^\| {name} \|", (DOCS / "validity.md").read_text(), re.MULTILINE)


def words_of_findings() -> list[str]:
    """How each piece of what `shardpulse status` finds begins, without what is filled in."""
    found = []
    for name in ("status/finding", "status/part_findings", "status/health", "shards/servers/resilience"):
        tree = ast.parse((ROOT / f"acquisition/{name}.py").read_text())
        told = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # what documents the code
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in told]
        found += [text.partition("{")[0][:40].replace("`", "").strip(" :;,") for text in texts if isinstance(text, str)]
    return sorted({text for text in found if len(text.split()) > 2})


@pytest.mark.parametrize("words", words_of_findings())
def test_the_handbook_says_what_to_do_about_every_finding(words: str) -> None:
    page = " ".join((DOCS / "handbook.md").read_text().replace("`", "").split())
    assert words in page


def test_the_handbook_says_what_to_do_about_every_alarm() -> None:
    alerts = re.findall(r"alert: (\w+)", (ROOT / "deploy/prometheus/shardpulse.rules.yml").read_text())
    page = (DOCS / "handbook.md").read_text()
    assert re.findall(r"^\| (Shardpulse\w+) \|", page, re.MULTILINE) == alerts


@pytest.mark.parametrize("unit", sorted(path.stem for path in (ROOT / "deploy/systemd").iterdir()))
def test_the_units_are_what_operations_says(unit: str) -> None:
    """User, memory, when it is started again, and whether it can be told to reload."""
    text = (ROOT / f"deploy/systemd/{unit}.service").read_text()
    keys = dict(re.findall(r"^(User|MemoryMax|Restart|RestartSec|ExecReload)=(.+)$", text, re.MULTILINE))
    (row,) = re.findall(rf"^\| `{unit}` \| (.+) \|$", (DOCS / "operations.md").read_text(), re.MULTILINE)
    user, memory, again, reload = row.split(" | ")
    assert (user, again) == (keys["User"], f"{keys['Restart']}, after {keys['RestartSec']} s")
    assert memory.partition(":")[0] == keys.get("MemoryMax", "none")
    assert reload.partition(":")[0] == ("yes" if "ExecReload" in keys else "no")


def test_the_readme_is_read_in_minutes() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 12_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links of a page, and anchors within the pages that they lead to."""
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", page.read_text()):
        found = page.parent / target if target else page
        assert found.exists(), f"{page.name} links to {target}"
        if anchor:
            titles = re.findall(r"^#+ (.+)$", found.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_only_files_that_exist(page: Path) -> None:
    """Paths in code marks; ``NAME`` in capitals stands for the reader's own."""
    for path in re.findall(rf"`((?:{PACKAGES})/[\w/.-]+)`", page.read_text()):
        assert re.search(r"[A-Z]{3}", path) or (ROOT / path).exists(), f"{page.name} names {path}"


RECORDS = DOCS / "decisions"
SUFFIXES = {".py", ".c", ".h"}
SOURCES = [path for room in PACKAGES.split("|") for path in sorted((ROOT / room).rglob("*")) if path.suffix in SUFFIXES]


def is_there(name: str) -> bool:
    """Whether a dotted name is a module of this checkout, or occurs in the longest part of it that is one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        for module in (path.with_suffix(".py"), path.with_suffix(".c"), path / "__init__.py"):
            if module.exists():
                return length == len(parts) or re.search(rf"\b{parts[length]}\b", module.read_text()) is not None
        if path.is_dir():
            return length == len(parts)
    return False


def test_sources_name_only_files_and_modules_that_exist() -> None:
    """In code, comments and docstrings; toys of tests and names in capitals are not of this checkout."""
    missing = []
    for source in SOURCES:
        text = source.read_text()
        paths = re.findall(rf"(?<![\w/.-])((?:{PACKAGES})/[\w/.-]+\.(?:py|c|h|md))\b", text)
        records = re.findall(r"docs/decisions/(\d{4}(?:, \d{4})*)", text)
        names = re.findall(rf"(?<![\w/.])((?:{PACKAGES})(?:\.[a-z_]\w*)+)(?![\w(/])", text)
        missing += [f"{source}: {path}" for path in paths if not (ROOT / path).exists()]
        missing += [f"{source}: {n}" for n in ", ".join(records).split(", ") if n and not [*RECORDS.glob(f"{n}-*")]]
        missing += [f"{source}: {name}" for name in names if not is_there(name)]
    assert [found for found in missing if not re.search(r"toy_|[A-Z]{3}|__|nothing", found)] == []


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    for page in (*DOCS.glob("*.md"), *DOCS.glob("tutorial/*.md")):
        assert page == DOCS / "README.md" or f"]({page.relative_to(DOCS)})" in index, page.name


def test_decision_records_are_listed() -> None:
    listed = (ROOT / "docs/decisions/README.md").read_text()
    for record in (ROOT / "docs/decisions").glob("0*.md"):
        assert f"]({record.name})" in listed, record.name


def tables_of_extensions() -> list[list[list[str]]]:
    """The tables of "How to extend it": rows of cells, without the heads."""
    text = (DOCS / "architecture.md").read_text().partition("## How to extend it")[2]
    tables = re.findall(r"^\|.+\|\n\|[-|]+\|\n((?:\|.+\n)+)", text, re.MULTILINE)
    return [[[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()] for table in tables]


EXTENSIONS, ENTRIES = tables_of_extensions()


@pytest.mark.parametrize("row", EXTENSIONS, ids=lambda row: row[0])
def test_what_can_be_added_is_added_once_by_a_test(row: list[str]) -> None:
    _, place, registry, _, test = row
    for room in re.findall(r"`([\w/]+)/NAME\.py`", place):
        assert (ROOT / room).is_dir(), room
    has_names(registry)
    assert (ROOT / test.strip("`")).exists()


@pytest.mark.parametrize("row", ENTRIES, ids=lambda row: row[0])
def test_tables_that_take_entries_exist(row: list[str]) -> None:
    assert has_names(row[1]) or row[0] == "a figure for Prometheus"


def has_names(cell: str) -> int:
    """How many names a cell has, each of which is at the top of its file."""
    named = re.findall(r"`(\w+)` in `([\w/.]+)`", cell)
    for name, path in named:
        assert re.search(rf"^(?:class )?{name}\b", (ROOT / path).read_text(), re.MULTILINE), f"{path} has no {name}"
    return len(named)


def test_every_toy_is_in_the_table() -> None:
    text = (DOCS / "architecture.md").read_text()
    toys = sorted((ROOT / "tests/extending").glob("test_toy_*.py"))
    assert [toy.name for toy in toys if f"`{toy.relative_to(ROOT)}`" not in text] == []
