"""Every program of ``experiments`` is listed, explains itself, says what it lacks, and clears up when it is ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from acquisition.errors import EXIT_UNAVAILABLE, EXIT_USAGE
from experiments.__main__ import programs
from experiments.processes.needs import LACKS
from experiments.processes.program import program
from tests.support import ROOT
from tests.support.programs import main_of
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
def test_a_program_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main_of(name)(["--help"])
    assert not ended.value.code
    assert f"python -m experiments.{name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", programs())
def test_a_wrong_option_is_refused_before_anything_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(SystemExit) as ended:
        main_of(name)(["--no-such-option"])
    assert ended.value.code == EXIT_USAGE


@pytest.mark.parametrize(
    ("name", "package"), [("serve_load", "wrk"), ("probe_cost", "sysstat"), ("beside", "prometheus")]
)
def test_a_missing_tool_is_said_in_one_line(name: str, package: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command(name), cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_UNAVAILABLE
    assert done.stderr.startswith(f"{name}: {LACKS}")
    assert f"apt install {package}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["long_run", "decisions"])
def test_missing_plots_are_said_before_anything_is_measured(name: str) -> None:
    module = f"experiments.{name}.__main__"
    code = f"import sys; sys.modules['matplotlib'] = None; from {module} import main; sys.exit(main(['--save', 'x']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_UNAVAILABLE, done.stderr
    assert done.stderr == f"{name}: {LACKS}plots need matplotlib: pip install '{ROOT}[experiments]'\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("chaos", "network namespaces need root"),
        ("failover", "network namespaces need root"),
        ("deployment", "hosts with systemd: it needs root"),
    ],
)
def test_what_needs_root_says_so(name: str, what: str) -> None:
    module = f"experiments.{name}.__main__"
    code = f"import os, sys; from {module} import main; os.setuid(65534); sys.exit(main([]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_UNAVAILABLE, done.stderr
    assert done.stderr.startswith(f"{name}: {LACKS}{what}")
    assert done.stderr.count("\n") == 1


#: Programs that start parts in different ways, and what makes them do so soon; they would run for long then.
STARTED = {
    "archive_live": ["--hosts", "4", "--entities", "5"],
    "beside": ["--hosts", "2"],
    "chaos": ["--hosts", "4"],
    "decisions": ["--hosts", "4"],
    "figures": ["--changed", "--only", "paper"],
    "fuzz": ["--lines", "100000000"],
    "ingest": ["--hosts", "5", "--entities", "5", "--metrics", "3"],
    "long_run": ["--hosts", "6", "--entities", "5"],
    "probe_cost": [],
    "reading": ["--hosts", "5", "--entities", "5"],
    "scale": ["--quick"],
    "serve_load": ["--hosts", "5", "--entities", "5"],
    "testbed": ["experiments/testbed/topologies/paper-fig8.toml", "--seconds", "600"],
}
ALONE = {"archive_cost": ["--episodes", "100000000"], "planner": []}  #: they start nothing


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *((name, signal.SIGTERM) for name in (*STARTED, *ALONE)),
        ("ingest", signal.SIGINT),
        ("ingest", signal.SIGHUP),
        ("testbed", signal.SIGINT),
    ],
)
def test_a_signal_leaves_nothing_behind(name: str, number: signal.Signals) -> None:
    with tempfile.TemporaryDirectory(prefix="sp-") as place:  # short: Chromium's sockets lie there
        end_and_look(name, number, Path(place))


def end_and_look(name: str, number: signal.Signals, place: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(place)}
    arguments = (STARTED | ALONE)[name]
    run = subprocess.Popen(
        command(name, *arguments),
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509  whatever nohup ignores
    )
    least = 1 if name in ALONE else 2
    until(lambda: run.poll() is not None or (hears(run.pid, number) and len(processes_of(place)) >= least))
    run.send_signal(number)
    out, err = run.communicate(timeout=_PATIENCE)
    if run.returncode == EXIT_UNAVAILABLE and LACKS.encode() in err:
        pytest.skip(err.decode().partition(LACKS)[2].strip())
    assert run.returncode == 128 + number, (out, err)
    assert out == b""
    assert b"Traceback" not in err, err.decode()
    assert list(place.iterdir()) == []
    assert not [each.name for each in Path("/dev/shm").iterdir() if str(run.pid) in re.findall("[0-9]+", each.name)]
    until(lambda: not processes_of(place))


def hears(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal; Python installs one for SIGINT as it starts."""
    mask = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)


def processes_of(directory: Path) -> list[str]:
    """What was started with this directory, or one in it, as the place for temporary files, or works in it:
    redis-server writes its title over its environment."""
    mark, found = f"\0TMPDIR={directory}".encode(), []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            inside = (path / "cwd").readlink().is_relative_to(directory)
            if inside or mark in b"\0" + (path / "environ").read_bytes():
                found.append((path / "cmdline").read_text())
        except OSError:
            continue
    return found


def until(done: Callable[[], bool]) -> None:
    eventually(done, _PATIENCE)


def test_signal_in_weakref_callback_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    # what is raised there is dropped: an import that is under way made the planner go on as if no signal had come
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)

    class Module:
        pass

    @program("a program")
    def main(_argv: list[str]) -> int:
        module = Module()
        there = weakref.ref(module, lambda _: signal.raise_signal(signal.SIGTERM))
        del module
        assert there() is None
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            time.sleep(0.01)
        return 0

    assert main([]) == 128 + signal.SIGTERM
    assert not printed
