"""What README and docs list is what the code has."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from acquisition.errors import EXIT_CODES
from acquisition.model import codes
from tests.support import ROOT

README = (ROOT / "README.md").read_text()


def test_configuration_reference_is_what_the_command_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "acquisition", "config"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    assert f"```toml\n{printed.strip()}\n```" in (ROOT / "docs/configuration.md").read_text(), (
        "write docs/configuration.md again: see its first lines"
    )


@pytest.mark.parametrize("code", EXIT_CODES)
def test_readme_lists_every_exit_code(code: int) -> None:
    assert re.search(rf"^\| {code} \|", README, re.MULTILINE)


@pytest.mark.parametrize("name", codes.NAMES)
def test_readme_lists_every_validity_code(name: str) -> None:
    assert re.search(rf"^\| {name} \|", README, re.MULTILINE)


def test_readme_names_only_files_that_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_decision_records_are_listed() -> None:
    listed = (ROOT / "docs/decisions/README.md").read_text()
    for record in (ROOT / "docs/decisions").glob("0*.md"):
        assert f"]({record.name})" in listed, record.name
