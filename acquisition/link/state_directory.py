"""State directory of local shards: location, ownership and command lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acquisition.errors import CannotCreateError


def default() -> Path:
    """``$XDG_RUNTIME_DIR/shardpulse``, else a directory of this user in /tmp."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime, "shardpulse") if runtime else Path(f"/tmp/shardpulse-{os.getuid()}")


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Create ``directory`` (mode 0700) and hold a lock on it, so that two commands do not start or stop
    shards at once. Raises CannotCreateError if it cannot be created, belongs to another user, is
    writable by others, or is locked by another command."""
    descriptor = _open_locked(directory)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # nothing was put into it, or it is gone already
            directory.rmdir()
        os.close(descriptor)


def _open_locked(directory: Path) -> int:
    while True:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise CannotCreateError(f"state directory {directory}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _check_ours(descriptor, directory)
            if directory.exists() and directory.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except BlockingIOError as error:
            os.close(descriptor)
            raise CannotCreateError(f"another command is starting or stopping the shards in {directory}") from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous command has just removed it: create it again


def _check_ours(descriptor: int, directory: Path) -> None:
    status = os.fstat(descriptor)
    if status.st_uid != os.getuid():
        raise CannotCreateError(f"state directory {directory} belongs to another user (uid {status.st_uid})")
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise CannotCreateError(f"state directory {directory} is writable by other users: run chmod go-w on it")
