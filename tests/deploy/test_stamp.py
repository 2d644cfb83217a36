"""Tests on hosts are left to tests/run --hosts: which scenario stays, and when the stamp says that they are due."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support import ROOT
from tests.support.hosts import stamp

TOY = """
import pytest

def test_ordinary():
    pass

@pytest.mark.hosts
@pytest.mark.always
def test_scenario():
    pass

@pytest.mark.hosts
def test_on_hosts():
    pass
"""


def checkout(place: Path) -> Path:
    (place / "deploy").mkdir()
    (place / "deploy" / "site.yml").write_text("hosts: all\n")
    subprocess.run(["git", "init", "--quiet", str(place)], check=True)
    return place


def test_stamp_holds_until_a_tested_file_changes(tmp_path: Path) -> None:
    root, file = checkout(tmp_path), tmp_path / "hosts.stamp"
    assert stamp.stale(root, file) == "they have never passed (hosts.stamp is missing)"
    file.write_text(f"2026-01-02 {stamp.hash_of(root)}\n")
    (root / "README.md").write_text("not tested on hosts\n")
    assert stamp.stale(root, file) == ""
    (root / "deploy" / "site.yml").write_text("hosts: none\n")
    assert stamp.stale(root, file) == "deploy or acquisition/shards changed since they last passed (2026-01-02)"


def test_mode_and_new_file_change_the_hash(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    hashes = [stamp.hash_of(root)]
    (root / "deploy" / "site.yml").chmod(0o755)
    hashes.append(stamp.hash_of(root))
    (root / "acquisition" / "shards").mkdir(parents=True)
    (root / "acquisition" / "shards" / "new.py").touch()
    hashes.append(stamp.hash_of(root))
    assert len(set(hashes)) == 3


def test_outside_git_nothing_is_stale(tmp_path: Path) -> None:
    assert stamp.stale(tmp_path, tmp_path / "hosts.stamp") == ""


@pytest.mark.parametrize(
    ("exit_code", "reason", "written"), [(0, "", True), (1, "", False), (0, f"{stamp.NOT_TESTED}: no root", False)]
)
def test_only_a_passing_run_on_hosts_writes_the_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exit_code: int, reason: str, written: bool
) -> None:
    monkeypatch.setattr(stamp, "ROOT", checkout(tmp_path))
    monkeypatch.setattr(stamp, "STAMP", tmp_path / "hosts.stamp")
    monkeypatch.setattr(stamp, "is_whole_run", lambda config: True)
    said: list[str] = []
    stats = {"passed": [SimpleNamespace()], "skipped": [SimpleNamespace(longrepr=reason)]}
    terminal = SimpleNamespace(stats=stats, line=said.append)
    options = {"markexpr": "hosts"}
    stamp.pytest_terminal_summary(terminal, exit_code, SimpleNamespace(getoption=options.get))  # type: ignore[arg-type]
    assert (tmp_path / "hosts.stamp").exists() == written
    options["markexpr"] = ""
    stamp.pytest_terminal_summary(terminal, 0, SimpleNamespace(getoption=options.get))  # type: ignore[arg-type]
    assert said[-1].startswith("tests on hosts: passed" if written else "tests on hosts: they have never passed")


def test_whole_run_has_one_scenario_on_hosts(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = .\nmarkers =\n  hosts\n  always\n")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.support.repeated", "tests.support.hosts.stamp"]\n')
    (tmp_path / "test_toy.py").write_text(TOY)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for arguments, expected in {
        (): "2 passed, 1 deselected",
        ("test_toy.py",): "3 passed",
        ("-m", "not hosts"): "1 passed, 2 deselected",
    }.items():
        command = [sys.executable, "-m", "pytest", *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert expected in done.stdout.splitlines()[-1], done.stdout
