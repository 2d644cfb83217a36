"""Source of a build: files of one commit or of the checkout, and its time."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import NamedTuple, NoReturn

from environment import CHECKOUT
from system_packages import say

from acquisition import commit as recorded
from acquisition.errors import EXIT_NO_INPUT

#: Parts of the source used for the packages.
_PARTS = (
    "acquisition", "probes", "filters", "deploy", "setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE",
    "NOTICE",
)  # fmt: skip


class Source(NamedTuple):
    """An exported source: its place, commit ("" for uncommitted files), time (seconds since 1970) and tags."""

    directory: Path
    commit: str
    epoch: int
    tags: frozenset[str] = frozenset()


def export(target: Path, revision: str, *, as_it_lies: bool = False) -> Source:
    """Export the source to ``target``, with modes independent of umask. Exits with 66 if there is no commit."""
    target.mkdir(parents=True)
    commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").decode().strip()
    if as_it_lies:
        _copy(target)
    elif commit:
        # as a separate tree: a whole commit may contain large files, and attributes could change the export
        parts = _git("ls-tree", "--name-only", commit, "--", *_PARTS).decode().split("\n")[:-1]
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit, "--", *parts))) as archive:
            archive.extractall(target, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(target)
    else:
        _fail(f"there is no commit {revision} in {CHECKOUT}: commit first, or build the files --as-they-lie")
    if not as_it_lies:
        recorded.record(target, commit[: recorded.DIGITS])
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    if as_it_lies:
        return Source(target, "", _epoch(commit))
    return Source(target, commit, _epoch(commit), frozenset(_git("tag", "--points-at", commit).decode().split()))


def _epoch(commit: str) -> int:
    """The commit's time; without a commit, that of the environment."""
    if commit:
        return int(_git("log", "-1", "--format=%ct", commit))
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not given.isdecimal():
        _fail("the time of these files is unknown without a commit: set SOURCE_DATE_EPOCH to seconds since 1970")
    return int(given)


def _copy(target: Path) -> None:
    """Copy the files known to git or not ignored by it, in their current state."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *_PARTS)
    for name in filter(None, listed.decode().split("\0")):
        if (CHECKOUT / name).is_file():  # otherwise removed and not committed
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, target / name)


def _git(*arguments: str) -> bytes:
    """Output of git; empty on failure."""
    command = ["git", "-c", "safe.directory=*", "-C", str(CHECKOUT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        _fail("git is not installed: apt install git")
    return done.stdout if done.returncode == 0 else b""


def _fail(text: str) -> NoReturn:
    say(f"error: {text}")
    raise SystemExit(EXIT_NO_INPUT)
