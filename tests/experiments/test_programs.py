"""Every program of ``experiments`` is listed, explains itself, says what it lacks, and clears up when it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acquisition.errors import EXIT_UNAVAILABLE
from experiments.__main__ import programs
from tests.support import ROOT
from tests.support.waiting import eventually

_PATIENCE = 60.0


def command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"experiments.{name}", *arguments]


def test_the_list_names_every_program_and_how_to_run_it() -> None:
    done = subprocess.run([sys.executable, "-m", "experiments"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ".venv/bin/python -m experiments.NAME" in done.stdout
    for name, line in programs().items():
        assert f"  {name} " in done.stdout
        assert line in done.stdout
        assert len(line) > 10
    assert {"ingest", "chaos", "scale", "probe_cost"} <= set(programs())


@pytest.mark.parametrize("name", programs())
def test_a_program_explains_itself(name: str) -> None:
    done = subprocess.run(command(name, "--help"), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"python -m experiments.{name}" in done.stdout


@pytest.mark.parametrize(
    ("name", "package"), [("serve_load", "wrk"), ("page_frames", "chromium"), ("probe_cost", "sysstat")]
)
def test_a_missing_tool_is_said_in_one_line(name: str, package: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command(name), cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_UNAVAILABLE
    assert done.stderr.startswith(f"{name}: ")
    assert f"apt install {package}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["overload", "scale", "long_run", "decisions"])
def test_missing_plots_are_said_before_anything_is_measured(name: str) -> None:
    module = f"experiments.{name}.__main__"
    code = f"import sys; sys.modules['matplotlib'] = None; from {module} import main; sys.exit(main(['--save', 'x']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_UNAVAILABLE, done.stderr
    assert done.stderr == f"{name}: plots need matplotlib: pip install 'shardpulse[experiments]'\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("name", ["chaos", "failover"])
def test_what_needs_root_says_so(name: str) -> None:
    module = f"experiments.{name}.__main__"
    code = f"import os, sys; from {module} import main; os.setuid(65534); sys.exit(main([]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_UNAVAILABLE, done.stderr
    assert done.stderr.startswith(f"{name}: network namespaces need root")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ingest", ["--hosts", "5", "--entities", "5", "--metrics", "3"]),
        ("refill", ["--hosts", "2", "--ticks", "100000"]),
        ("overload", []),
    ],
)
def test_sigterm_leaves_nothing_behind(name: str, arguments: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.Popen(
        command(name, *arguments), cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until(lambda: len(processes_of(tmp_path)) >= 4)
    run.send_signal(signal.SIGTERM)
    out, err = run.communicate(timeout=_PATIENCE)
    assert run.returncode == 128 + signal.SIGTERM, (out, err)
    assert (out, err) == (b"", b"")
    assert list(tmp_path.iterdir()) == []
    until(lambda: not processes_of(tmp_path))


def processes_of(directory: Path) -> list[str]:
    """What was started with this directory as the place for temporary files, or works in it: redis-server writes its
    title over its environment."""
    mark, found = f"TMPDIR={directory}".encode(), []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            inside = (path / "cwd").readlink().is_relative_to(directory)
            if inside or mark in (path / "environ").read_bytes().split(b"\0"):
                found.append((path / "cmdline").read_text())
        except OSError:
            continue
    return found


def until(done: Callable[[], bool]) -> None:
    eventually(done, _PATIENCE)
