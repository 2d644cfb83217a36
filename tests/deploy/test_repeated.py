"""A failed test is run once more, alone: what counts as flaky, what is never repeated, and what the last line says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

TOY = """
import pathlib, pytest
PLACE = pathlib.Path(__file__).parent

def first_time(name):
    path = PLACE / f"{name}.ran"
    path.write_text(path.read_text() + "x" if path.exists() else "x")
    return path.read_text() == "x"

def test_good():
    pass
"""
FAILS_ONCE = """
def test_once_{0}():
    assert not first_time("once_{0}"), "the first time"
"""
FAILS_TWICE = """
def test_twice():
    first_time("twice")
    assert False
"""
FIXTURES_FAIL_ONCE = """
@pytest.fixture
def resource():
    assert not first_time("resource"), "the first time"

@pytest.fixture
def cleanup():
    yield
    assert not first_time("cleanup"), "the first time"

def test_with_resource(resource):
    pass

def test_with_cleanup(cleanup):
    pass
"""
COUNTS_LOST_SAMPLES = """
@pytest.mark.parametrize("lost", [0])
def test_once_1(lost):
    assert not first_time("once_1")
"""
CRASHES_ONCE = """
def test_crash():
    if first_time("crash"):
        import os
        os.abort()
"""


def run(place: Path, text: str, *arguments: str, workers: str = "0") -> subprocess.CompletedProcess[str]:
    (place / "toys").mkdir(exist_ok=True)
    (place / "pytest.ini").write_text("[pytest]\ntestpaths = toys\naddopts = -q -r fE -p xdist\n")
    (place / "conftest.py").write_text('pytest_plugins = ["tests.support.repeated"]\n')
    (place / "toys" / "test_toy.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-n", workers, "--repeat-failed", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, env=environment, cwd=place, capture_output=True, text=True, timeout=300)


def last(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout.splitlines()[-1]


def runs(place: Path, name: str) -> int:
    return len((place / "toys" / f"{name}.ran").read_text())


def test_passing_run_repeats_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, TOY)
    assert done.returncode == 0
    assert last(done).startswith("1 passed in ")
    assert "once more" not in done.stdout


@pytest.mark.parametrize("workers", ["0", "2"])
def test_failure_then_pass_is_flaky(tmp_path: Path, workers: str) -> None:
    """Also when a fixture fails, before the test or after it."""
    done = run(tmp_path, TOY + FAILS_ONCE.format(1) + FIXTURES_FAIL_ONCE, workers=workers)
    assert done.returncode == 0, done.stdout
    assert last(done).startswith("4 passed, 3 flaky in ")
    assert done.stdout.count("AssertionError: the first time") == 3
    for name in ("once_1", "with_resource", "with_cleanup"):
        assert f"\nflaky: toys/test_toy.py::test_{name} (passed when it ran alone)\n" in done.stdout
    assert "FAILED" not in done.stdout
    assert "ERROR" not in done.stdout


def test_two_failures_fail_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, TOY + FAILS_TWICE + FAILS_ONCE.format(1))
    assert done.returncode == 1
    assert runs(tmp_path, "twice") == 2
    assert last(done).startswith("1 failed, 2 passed, 1 flaky in ")
    assert "failed twice: toys/test_toy.py::test_twice\n" in done.stdout
    assert "flaky: toys/test_toy.py::test_once_1 " in done.stdout


def test_four_flaky_tests_fail_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, TOY + "".join(FAILS_ONCE.format(number) for number in range(4)))
    assert done.returncode == 1
    assert last(done).startswith("4 failed, 1 passed in ")
    assert done.stdout.count("\nflaky: ") == 4
    assert "4 flaky tests, and at most 3 are accepted\n" in done.stdout


def test_many_failures_are_not_repeated(tmp_path: Path) -> None:
    done = run(tmp_path, TOY + "".join(FAILS_ONCE.format(number) for number in range(11)))
    assert done.returncode == 1
    assert runs(tmp_path, "once_1") == 1
    assert last(done).startswith("11 failed, 1 passed in ")


def test_chaos_and_reconciliation_are_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "toys").mkdir()
    for name in ("test_chaos_toy", "test_books_toy"):
        (tmp_path / "toys" / f"{name}.py").write_text(TOY + FAILS_ONCE.format(name))
    done = run(tmp_path, TOY + COUNTS_LOST_SAMPLES)
    assert done.returncode == 1
    assert {runs(tmp_path, f"once_{name}") for name in ("1", "test_chaos_toy", "test_books_toy")} == {1}
    assert last(done).startswith("3 failed, 3 passed in ")


def test_crashed_worker_is_not_repeated(tmp_path: Path) -> None:
    done = run(tmp_path, TOY + CRASHES_ONCE, workers="2")
    assert done.returncode == 1
    assert last(done).startswith("1 failed, 1 passed in ")


@pytest.mark.parametrize("arguments", [["toys/test_toy.py"], ["-k", "test"], ["-x"]])
def test_run_of_some_tests_repeats_nothing(tmp_path: Path, arguments: list[str]) -> None:
    done = run(tmp_path, TOY + FAILS_ONCE.format(1), *arguments)
    assert done.returncode != 0
    assert runs(tmp_path, "once_1") == 1
    assert "once more" not in done.stdout


def test_file_that_cannot_be_imported_is_not_repeated(tmp_path: Path) -> None:
    done = run(tmp_path, TOY + "raise OSError\n")
    assert done.returncode != 0
    assert "failed twice" not in done.stdout
