"""Debian trees in the user's cache, made by debootstrap, named by recipe.

They are built once and only read afterwards.

Runs with the system's Python, so it imports only the standard library.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_NEEDED = ("debootstrap", "unshare", "chroot")


class DebianError(Exception):
    """A tree could not be built; the reason."""


def missing(*tools: str) -> str:
    """Why trees cannot be built and entered here, and what to do about it; "" if they can. ``tools`` are additional
    required programs."""
    if os.geteuid() != 0:
        return "it needs root"
    absent = [tool for tool in (*_NEEDED, *tools) if shutil.which(tool) is None]
    if absent:
        return f"{', '.join(absent)} not found: apt install debootstrap util-linux coreutils"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"no mount namespaces: {tried.stderr.strip()}" if tried.returncode else ""


def cache() -> Path:
    """Directory of the trees, among other files kept for the next run."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shardpulse"


def mirror() -> list[str]:
    """The mirror of this machine's apt if it is a Debian; none leaves the choice to debootstrap."""
    listed = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(listed, capture_output=True, text=True, check=False)
    places = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("Debian ")]
    return [place for place in places if place.rstrip("/").endswith("/debian")][:1]


def kept(name: str, recipe: object, make: Callable[[Path], None]) -> Path:
    """A directory of the cache, made by ``make`` unless it exists; other callers wait meanwhile.

    ``recipe`` fully determines its content. Raises the errors of ``make``, and then keeps nothing.
    """
    target = cache() / f"{name}-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:12]}"
    with _locked(target.with_suffix(".lock")):
        if not target.exists():
            part = target.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            make(part)
            part.rename(target)
    return target


def debootstrap(suite: str, packages: Sequence[str], target: Path) -> None:
    """A minimal Debian with these packages; fetched packages are kept for others. Raises DebianError."""
    fetched = cache() / "debs"
    fetched.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", f"--cache-dir={fetched}",
         suite, str(target), *mirror()],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise DebianError(f"debootstrap failed: {(done.stdout + done.stderr)[-1000:]}")
    shutil.rmtree(target / "var" / "cache" / "apt", ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
