"""Workspace of the demo: a directory, on tmpfs if possible, removed at the end.

A demo killed with -9 cannot remove its directory, so the next one does: a lock on the
directory, which ends with its process, shows which ones are still in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = f"shardpulse-demo-{os.getuid()}-"
_NEW_SECONDS = 30.0  #: a directory of this age or less may not be locked yet


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A directory of this demo (mode 0700), removed with its contents at the end."""
    base = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())
    _sweep(base)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    lock = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _sweep(base: Path) -> None:
    """Remove directories of demos killed with -9."""
    for directory in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # in use, another user's, or already removed
            status = directory.lstat()
            if status.st_uid != os.getuid() or time.time() - status.st_mtime < _NEW_SECONDS:
                continue
            lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(lock)
