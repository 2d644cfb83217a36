"""Machine of a measurement: hardware, versions, commit and date."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from acquisition.errors import UnavailableError
from acquisition.shards.servers import redis_binary
from filters.worker.step import native

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("numpy", "hiredis", "redis", "msgspec")


def describe() -> dict[str, Any]:
    """Machine and versions as a JSON object; unknown values are empty strings."""
    return {
        "cpu": _first_value("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "system": _first_value("/etc/os-release", "PRETTY_NAME", "=").strip('"'),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "redis_server": server(),
        "filter": "C" if native.STEP is not None else "numpy",
        "packages": {name: package(name) for name in _PACKAGES},
    }


def server() -> str:
    """Name and version of the server used for every shard of a run, such as ``Redis 7.0.15``; empty without one."""
    try:
        return redis_binary.find().name
    except UnavailableError:
        return ""


def provenance(argv: list[str], program: str) -> dict[str, str]:
    """Command line, commit and date of a run. ``argv`` without the program's name."""
    return {
        "command": shlex.join(["python", "-m", program, *argv]),
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "executable": Path(sys.executable).name,
    }


def commit(root: Path = _ROOT) -> str:
    """The commit of the checkout, with ``+changes`` if it has some; empty outside one."""
    head = _git(root, "rev-parse", "HEAD")
    return f"{head}+changes" if head and changed(root) else head or ""


def changed(root: Path = _ROOT) -> bool:
    """Whether a file of the checkout differs from its commit or is not in it; results and pages affect no figure."""
    return bool(_git(root, "status", "--porcelain", "--", ".", ":!experiments/results", ":!*.md"))


def state(root: Path = _ROOT) -> str:
    """The commit with a digest of changes to its files; empty outside a checkout."""
    changes = _git(root, "diff", "HEAD", "--", ".", ":!experiments/results", ":!*.md") or ""
    return f"{_git(root, 'rev-parse', 'HEAD') or ''}{hashlib.sha256(changes.encode()).hexdigest() if changes else ''}"


def changed_since(earlier: str, paths: Sequence[str], root: Path = _ROOT) -> bool:
    """Whether a commit after that one changed one of the paths, or the repository lacks that commit; False outside a
    repository and in a part of one."""
    later = _git(root, "log", "--format=%h", "-1", f"{earlier}..", "--", *paths)
    if later is None:
        return _git(root, "rev-parse", "--is-shallow-repository") == "false"
    return bool(later)


def _git(root: Path, *arguments: str) -> str | None:
    """Output of git; None outside a checkout, or if it fails."""
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]  # a lock would outlive a signal
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def package(name: str) -> str:
    """Version of a Python package; empty if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _first_value(path: str, key: str, separator: str = ":") -> str:
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        name, found, value = line.partition(separator)
        if found and name.strip() == key:
            return value.strip()
    return ""
