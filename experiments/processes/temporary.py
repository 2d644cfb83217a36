"""Temporary directory, removed at the end or by the next program.

The next program does it if this one was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "shardpulse-testbed-"
_LOCK = "lock"
_UNLOCKED_SECONDS = 600.0  #: maximum time for filling a directory without a lock


@contextlib.contextmanager
def made() -> Iterator[Path]:
    """A new directory among the temporary files."""
    place = Path(tempfile.mkdtemp(prefix=PREFIX))
    with held(place):
        yield place


@contextlib.contextmanager
def held(place: Path) -> Iterator[None]:
    """Remove directories of killed programs beside ``place``, and ``place`` itself at the end."""
    try:
        with (place / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _sweep(place.parent)
            yield
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _sweep(parent: Path) -> None:
    for place in parent.glob(f"{PREFIX}*"):
        if _is_left(place):
            shutil.rmtree(place, ignore_errors=True)


def _is_left(place: Path) -> bool:
    """Whether no program holds it: the kernel releases a lock when its process ends, in whatever way."""
    try:
        with (place / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            return time.time() - place.stat().st_mtime > _UNLOCKED_SECONDS
    except OSError:  # a program holds it, or it is another user's
        pass
    return False
