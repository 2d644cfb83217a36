"""Preparing the environment: what is said and done when Python, venv, pip or Redis is missing."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.support import ROOT


@pytest.fixture
def environment(monkeypatch):
    specification = importlib.util.spec_from_file_location("environment", ROOT / "deploy" / "environment.py")
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setattr(sys, "path", list(sys.path))
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def no_root(environment, monkeypatch):
    monkeypatch.setattr(environment.os, "geteuid", lambda: 1000)
    return environment


@pytest.mark.parametrize("script", ["deploy/demo", "tests/run"])
def test_without_a_python_it_says_what_to_install(script, tmp_path):
    for tool in ("dirname", "sh"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{tool}")
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")  # too old, or a shim without a version behind it
    (tmp_path / "python3").chmod(0o755)
    done = subprocess.run(["/bin/sh", str(ROOT / script)], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 69
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "apt install python3 python3-venv" in done.stderr


@pytest.mark.parametrize("script", ["deploy/demo", "tests/run"])
def test_a_named_python_that_is_none_is_an_error(script):
    environment = {**os.environ, "PYTHON": "/nope"}
    done = subprocess.run(["/bin/sh", str(ROOT / script)], env=environment, capture_output=True, text=True)
    assert done.returncode == 69
    assert "PYTHON=/nope is no Python 3.11" in done.stderr


def test_help_of_the_tests_needs_no_environment():
    done = subprocess.run(
        ["/bin/sh", str(ROOT / "tests" / "run"), "--help"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    for words in ("usage: tests/run", "--quick", "--bare", "--format", "between two edits", "exit codes:"):
        assert words in done.stdout


def test_without_venv_it_names_the_package(no_root, monkeypatch, capsys):
    monkeypatch.setattr(no_root.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as caught:
        no_root.require_venv()
    assert caught.value.code == 69
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert f"apt install python{version}-venv" in capsys.readouterr().err


def test_as_root_on_debian_venv_is_installed_after_saying_so(environment, monkeypatch, tmp_path, capsys):
    log = fake_apt(tmp_path, monkeypatch, environment)
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None)
    environment.require_venv()
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    assert f"installing {package} through apt" in capsys.readouterr().err
    assert log.read_text().splitlines() == [f"install --yes --quiet --no-install-recommends {package}"]


def test_apt_is_updated_when_it_knows_the_package_not(environment, monkeypatch, tmp_path):
    log = fake_apt(tmp_path, monkeypatch, environment, "[ -e updated ] || { [ $1 = update ] && : > updated; }")
    environment.apt(["x"], "because")
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["install", "update", "install"]


def test_apt_that_fails_is_quoted(environment, monkeypatch, tmp_path, capsys):
    fake_apt(tmp_path, monkeypatch, environment, "echo 'E: no such package' >&2; exit 100")
    with pytest.raises(SystemExit) as caught:
        environment.apt(["x"], "because")
    assert caught.value.code == 69
    assert "apt could not install x: E: no such package" in capsys.readouterr().err


def fake_apt(tmp_path, monkeypatch, environment, behaviour="exit 0"):
    log = tmp_path / "log"
    (tmp_path / "apt-get").write_text(f'#!/bin/sh\ncd {tmp_path}\necho "$@" >> {log}\n{behaviour}\n')
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(environment.os, "geteuid", lambda: 0)
    return log


def test_without_redis_it_names_the_package(no_root, monkeypatch, capsys):
    monkeypatch.setattr(no_root, "_runs", lambda python, code: False)
    with pytest.raises(SystemExit) as caught:
        no_root._require_redis(Path("/nonexistent"))
    assert caught.value.code == 69
    assert "apt install redis-server" in capsys.readouterr().err


def test_redis_is_looked_for_before_anything_is_installed(no_root, monkeypatch, capsys):
    monkeypatch.delenv("SHARDPULSE_REDIS_SERVER", raising=False)
    monkeypatch.setattr(no_root.shutil, "which", lambda name: None)
    monkeypatch.setattr(no_root, "_WHEEL_BELOW", (3, 0))
    with pytest.raises(SystemExit) as caught:
        no_root._require_redis_or_wheel()
    assert caught.value.code == 69
    assert "apt install redis-server" in capsys.readouterr().err


def test_missing_tools_are_named(no_root, monkeypatch, capsys):
    monkeypatch.setattr(no_root.shutil, "which", lambda name: None)
    no_root.install_system_tools()
    assert "install redis-server procps sysstat" in capsys.readouterr().err


@pytest.fixture
def checkout(environment, monkeypatch, tmp_path):
    """One with nothing in it, where an installation only makes a python; answers the extras of every installation."""
    monkeypatch.setattr(environment, "CHECKOUT", tmp_path)
    monkeypatch.setattr(environment, "_require_redis", lambda venv: None)
    for name in ("setup.cfg", "setup.py", "pyproject.toml", "deploy/constraints.txt", f"{environment.NATIVE[0]}.c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    installed = []

    def install(venv, extras):
        (venv / "bin").mkdir(parents=True, exist_ok=True)
        (venv / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
        (venv / "bin" / "python").chmod(0o755)
        installed.append(extras)

    monkeypatch.setattr(environment, "_install", install)
    return installed


def test_a_failing_installation_shows_why_and_leaves_no_stamp(environment, checkout, monkeypatch, tmp_path, capsys):
    run = environment.run_quietly
    monkeypatch.setattr(environment, "_install", lambda venv, extras: run(["/bin/false"], "it failed"))
    with pytest.raises(SystemExit) as caught:
        environment.prepare([])
    assert caught.value.code == 69
    assert "it failed" in capsys.readouterr().err
    assert not list(tmp_path.rglob(environment.STAMP))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  Downloading numpy-2.1.3-cp311-cp311-manylinux_2_17_x86_64.whl (16.3 MB)\n", "  numpy 2.1.3 (16.3 MB)"),
        ("  Downloading https://a.b/c/rich-13.9.4-py3-none-any.whl (242 kB)\n", "  rich 13.9.4 (242 kB)"),
        ("  Using cached python-watcher-17.0.0.tar.gz (2.1 MB)\n", "  python-watcher 17.0.0 (2.1 MB)"),
        ("  Downloading rich-13.9.4-py3-none-any.whl.metadata (18 kB)\n", ""),
        ("  Building editable for shardpulse (pyproject.toml): started\n", "  building shardpulse"),
        ("Installing collected packages: rich, numpy, shardpulse\n", "  unpacking 3 packages"),
        ("Collecting rich>=13.0\n", ""),
    ],
)
def test_packages_are_named_as_they_come(environment, line, said):
    assert environment.pip_progress(line) == said


def test_progress_is_said_while_a_command_runs(environment, tmp_path, capsys):
    def progress(line):
        (tmp_path / "heard").touch()
        return line.strip()

    wait = "for i in $(seq 300); do [ -e heard ] && exit; sleep 0.1; done; exit 1"
    environment.run_quietly(["/bin/sh", "-c", f"cd {tmp_path}; echo a package; {wait}"], "it was not heard", progress)
    assert capsys.readouterr().err == "shardpulse: a package\n"


def test_a_stamp_makes_the_second_start_fast(environment, checkout, tmp_path):
    environment.prepare([])
    environment.prepare([])
    environment.prepare(["test"])
    environment.prepare([])  # what has more serves for less
    (tmp_path / "setup.cfg").write_text("changed")
    environment.prepare([])
    assert checkout == [[], ["test"], []]


def test_a_compiler_that_comes_later_is_used_by_the_next_start(environment, checkout, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "include"))
    monkeypatch.setenv("CC", str(tmp_path / "compiler"))
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    environment.prepare([])
    said = capsys.readouterr().err
    assert "step is numpy's" in said
    assert f"no {tmp_path / 'compiler'} and no Python.h" in said
    assert f"apt install gcc python{version}-dev" in said
    (tmp_path / "compiler").symlink_to("/bin/true")
    environment.prepare([])  # and no headers yet
    assert f"no Python.h to compile the native ones (Debian, Ubuntu: apt install python{version}-dev)" in (
        capsys.readouterr().err
    )
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "Python.h").touch()
    environment.prepare([])
    assert "could not be compiled" in capsys.readouterr().err
    environment.prepare([])
    assert len(checkout) == 3


def test_the_native_step_is_told_where_there_is_one(environment):
    built = environment._runs(Path(sys.executable), f"import {', '.join(environment.NATIVE).replace('/', '.')}")
    said = environment._native_step(Path(sys.prefix))
    assert said.startswith("the steps of filter and probe are native" if built else "the filter's step is numpy's")


def test_a_checkout_that_cannot_be_written_uses_the_cache(environment, monkeypatch, tmp_path):
    monkeypatch.setattr(environment.os, "access", lambda path, mode: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = environment.home_directory()
    assert home.parent == tmp_path / "shardpulse"
    copy = environment._copy(home / "source")
    assert (copy / "acquisition" / "cli.py").exists()
    assert (copy / "setup.cfg").exists()


@pytest.mark.parametrize("script", ["environment.py", "../acquisition/lifeline.py"])
def test_what_prepares_the_environment_needs_no_package(script):
    # -S leaves site-packages out, as on a machine where nothing is installed yet
    code = f"import runpy, sys; sys.argv = ['x', '--help']; runpy.run_path({str(ROOT / 'deploy' / script)!r})"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_the_product_imports_is_compiled_and_nothing_else(environment, tmp_path):
    venv.create(tmp_path, symlinks=True)
    (packages,) = tmp_path.glob("lib/python*/site-packages")
    (packages / "hiredis.py").write_text("Reader = None\n")
    (packages / "unused.py").write_text("")
    told = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([tmp_path / "bin" / "python", "-c", environment._COMPILE], env=told, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert [path.name.split(".")[0] for path in packages.rglob("*.pyc")] == ["hiredis"]
