"""How the tests run: what must be alone is, and what a machine cannot test is listed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.support import ROOT

BESIDE_EACH_OTHER = """
import pathlib, time, pytest
PLACE = pathlib.Path(__file__).parent

@pytest.mark.alone
@pytest.mark.parametrize("number", range(2))
def test_alone(number):
    for _ in range(10):
        assert not list(PLACE.glob("*.running")) + list(PLACE.glob("*.few"))
        time.sleep(0.01)

@pytest.mark.few
@pytest.mark.parametrize("number", range(3))
def test_few(number):
    mine = PLACE / f"{pathlib.Path(__file__).stem}-{number}.few"
    mine.touch()
    for _ in range(10):
        assert not list(PLACE.glob("*.running"))
        assert len(list(PLACE.glob("*.few"))) <= 5
        time.sleep(0.01)
    mine.unlink()

@pytest.mark.parametrize("number", range(12))
def test_beside(number):
    mine = PLACE / f"{pathlib.Path(__file__).stem}-{number}.running"
    mine.touch()
    time.sleep(0.05)
    mine.unlink()
"""
THREE = """
import pathlib, time, pytest
PLACE = pathlib.Path(__file__).parent

@pytest.mark.few
def test_the_others_come_too():
    (PLACE / f"{pathlib.Path(__file__).stem}.few").touch()
    deadline = time.monotonic() + 60
    while len(list(PLACE.glob("*.few"))) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
"""
NEEDY = """
import pytest

@pytest.mark.needs("vmstat", "pidstat")
def test_needy():
    pass
"""


def run(place: Path, text: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (place / "pytest.ini").write_text("[pytest]\nmarkers =\n  alone\n  few\n  needs\n")
    (place / "test_it.py").write_text(text)
    path = os.pathsep.join([str(ROOT), str(ROOT / "deploy")])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "xdist", *arguments, str(place)],
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment}, cwd=place,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_nothing_runs_beside_what_must_be_alone(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"test_{number}.py").write_text(BESIDE_EACH_OTHER)
    done = run(tmp_path, BESIDE_EACH_OTHER, "-n", "3", "--no-loadscope-reorder", "-p", "tests.support.turns")
    assert done.returncode == 0, done.stdout
    assert "68 passed" in done.stdout
    assert re.search(r"^wall clock of the workers: side by side \d+ s \(idle.*\), few at a time \d+ s, alone \d+ s$",
                     done.stdout, re.MULTILINE), done.stdout  # fmt: skip


def test_three_that_wait_go_together(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"test_other_{number}.py").write_text(THREE)
    done = run(tmp_path, THREE, "-n", "3", "-p", "tests.support.turns")
    assert done.returncode == 0, done.stdout


def test_what_is_missing_is_listed_with_its_package(tmp_path: Path) -> None:
    done = run(tmp_path, NEEDY, "-p", "tests.support.untested", PATH=str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert "1 test: vmstat, pidstat not found: apt install procps sysstat" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 skipped")


def test_where_apt_may_install_nothing_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "apt-get").write_text("#!/bin/sh\n")
    (tmp_path / "apt-get").chmod(0o755)
    done = run(tmp_path, NEEDY, "-p", "tests.support.untested", PATH=str(tmp_path))
    assert done.returncode == (1 if os.geteuid() == 0 else 0)
    assert "apt install procps sysstat" in done.stdout


def test_no_two_files_of_tests_have_one_name() -> None:
    # pytest imports them by it, so that a run of all would stop at the second; a run of some may hold only one
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
