"""Temporary directory, removed at the end or by the next program.

The next program does it where this one was killed.
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
_UNLOCKED_SECONDS = 600.0  #: a directory without a lock is being filled for so long at most


@contextlib.contextmanager
def made() -> Iterator[Path]:
    """A new one in the directory for temporary files."""
    place = Path(tempfile.mkdtemp(prefix=PREFIX))
    with held(place):
        yield place


@contextlib.contextmanager
def held(place: Path) -> Iterator[None]:
    """Remove what killed programs have left beside ``place``, and ``place`` itself in the end."""
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
    """Whether no program holds it: the kernel lets go of a lock when its process is gone, in whatever way."""
    try:
        with (place / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            return time.time() - place.stat().st_mtime > _UNLOCKED_SECONDS
    except OSError:  # somebody holds it, or it is another user's
        pass
    return False
