"""Built packages for tests, from a committed copy of the checkout's files."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

#: Of a commit whose time is long ago, as packages must not hold the time of their making.
_MOMENT = "2026-01-02T03:04:05Z"


def commit_of_the_checkout(target: Path) -> Path:
    """A repository in ``target`` with one commit of the files that git would take here, always the same commit."""
    if shutil.which("git") is None:
        pytest.skip("PACKAGES ARE NOT TESTED HERE: apt install git")
    git = ["git", "-c", "safe.directory=*", "-c", "user.name=test", "-c", "user.email=test@example.org"]
    listed = subprocess.run(
        [*git, "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("docs/", "experiments/", "tests/")):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    environment = {**os.environ, "GIT_AUTHOR_DATE": _MOMENT, "GIT_COMMITTER_DATE": _MOMENT}
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "as it lies"]):
        subprocess.run([*git, *command], cwd=target, env=environment, check=True)
    return target


def built(repository: Path, *arguments: str, out: Path) -> Path:
    """What deploy/build makes there. The test is skipped, loudly, where a compiler or headers are missing."""
    command = [str(repository / "deploy/build"), *arguments, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 69 and "not compiled" in done.stderr:
        pytest.skip(f"PACKAGES ARE NOT TESTED HERE: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return out
