"""The command as a user starts it: help, unknown commands, exit codes, signals, broken pipes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib

import pytest

from acquisition import __version__, cli, commit
from acquisition.errors import EXIT_CODES, ConfigError, ShardpulseError
from tests.support import ROOT
from tests.support.waiting import eventually


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **options.pop("environment", {})}
    command = [sys.executable, "-m", "acquisition", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, **options)


def test_help_lists_commands_examples_and_exit_codes():
    done = run("--help")
    assert done.returncode == 0
    for name in cli.commands():
        assert re.search(rf"^  {name} {{2,}}{re.escape(cli.SUMMARIES[name])}$", done.stdout, re.MULTILINE), name
    for code, meaning in EXIT_CODES.items():
        assert f"{code:>3}  {meaning}" in done.stdout
    assert "examples:" in done.stdout
    assert run().stdout == done.stdout


def test_version_names_the_commit_of_the_checkout():
    told = run("--version").stdout.strip()
    assert re.fullmatch(rf"shardpulse {re.escape(__version__)}( \([0-9a-f]{{12}}(-dirty)?\))?", told)
    assert told.endswith(")") == bool(commit.of_checkout(ROOT))


def test_version_in_somebody_elses_repository_names_no_commit(tmp_path):
    (tmp_path / ".git").mkdir()  # it is no repository either
    inside = tmp_path / "site-packages"
    inside.mkdir()
    assert commit.of_checkout(inside) == commit.of_checkout(tmp_path) == ""


def test_version_of_a_package_names_the_recorded_commit(monkeypatch, tmp_path, capsys):
    module = tmp_path / "acquisition" / "commit.py"
    module.parent.mkdir()
    module.write_text((ROOT / "acquisition" / "commit.py").read_text())
    for recorded in ("111111111111", "222222222222"):  # a second build in the same directory
        commit.record(tmp_path, recorded)
        assert re.findall(r'^RECORDED = "(.*)"$', module.read_text(), re.MULTILINE) == [recorded]
    monkeypatch.setattr(commit, "RECORDED", "222222222222")
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"shardpulse {__version__} (222222222222)\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["qury"], "unknown command qury; did you mean query?"),
        (["zzzzz"], "unknown command zzzzz; commands are shards, probe"),
        (["--json"], "unknown option --json"),
    ],
)
def test_a_wrong_command_line(arguments, words):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"shardpulse: error: {words}")


@pytest.mark.parametrize("name", list(cli.commands()))
def test_help_of_every_command_teaches(name):
    done = run(name, "--help")
    assert done.returncode == 0, done.stderr
    assert f"shardpulse {name}" in done.stdout
    assert "exit codes:" in done.stdout
    assert "examples:" in done.stdout


def test_config_prints_toml_that_is_accepted(tmp_path):
    done = run("config")
    path = tmp_path / "all.toml"
    path.write_text(done.stdout)
    assert tomllib.loads(done.stdout)["filter"]["tau_seconds"] == 5.0
    again = run("config", "--file", str(path))
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert run("config", "--file", str(path), "--json").stdout.startswith("{")


def test_config_refuses(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("[filter.tau]\nno_such = 1\n")
    done = run("config", "--file", str(path))
    assert done.returncode == 78
    assert "unknown metric 'no_such'" in done.stderr
    path.write_text('[filter]\nkernels = ["mean", "varance"]\n')
    done = run("config", "--file", str(path))
    assert done.returncode == 78
    assert "unknown kernel 'varance'; did you mean variance?" in done.stderr
    assert run("config", "--file", "/nonexistent").returncode == 66


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m acquisition config | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_input_that_fails_is_no_output_error():
    done = run("replay", "vmstat", "/proc/self/mem")
    assert done.returncode == 66, done.stderr
    assert "cannot read input" in done.stderr


def test_output_that_cannot_be_written_is_said():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "acquisition", "config"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr == "shardpulse: error: cannot write output: No space left on device\n"


class Raises:
    """A registered command that raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def load(self):
        return self

    def __call__(self, argv: list[str]) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), 78),
        (ShardpulseError("x"), 1),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("x"), 70),
        (OSError(2, "x", "file"), 70),
    ],
)
def test_errors_become_exit_codes(error, code, monkeypatch, capsys):
    monkeypatch.setattr(cli, "commands", lambda: {"bad": Raises(error)})
    assert cli.main(["bad"]) == code
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert ("x" in shown) == (code != 130)


def test_a_fault_shows_where_only_on_demand(monkeypatch, capsys):
    monkeypatch.setattr(cli, "commands", lambda: {"bad": Raises(ZeroDivisionError("x"))})
    monkeypatch.setenv(cli.DEBUG, "1")
    assert cli.main(["bad"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_in_a_command(tmp_path):
    # `shards up` takes two seconds; SIGINT in the middle leaves nothing behind
    child = subprocess.Popen(
        [sys.executable, "-m", "acquisition", "shards", "up", "--dir", str(tmp_path / "state")], stderr=subprocess.PIPE
    )
    state = tmp_path / "state"
    try:
        eventually(lambda: (state / "shards.json").exists() or child.poll() is not None)
        child.send_signal(signal.SIGINT)
        _, shown = child.communicate(timeout=30)
        assert child.returncode == 130, shown
        assert not state.exists()
    finally:
        run("shards", "down", "--dir", str(state))  # nothing stays behind where it fails
