"""Private files and directories: modes 0600 and 0700, whatever the umask.

The command line runs every command under ``private``, which also covers files made by libraries and child processes:
an archive of SQLite, a server's log, a ring. docs/security.md lists the few files that others have to read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MODE = 0o600
_UMASK = 0o077


@contextmanager
def private() -> Iterator[None]:
    """Make everything created meanwhile accessible to this user alone."""
    before = os.umask(_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def make_secrets_directory(directory: Path) -> None:
    """Create a directory for secrets that git ignores, wherever it is; one with files in it, and the current
    directory, are left unchanged. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.listdir(directory) and not os.path.samefile(directory, os.curdir):
        write(directory / ".gitignore", "*\n", replace=True)


def write(path: Path, data: bytes | str, replace: bool = False, mode: int = MODE) -> None:
    """Write a file that is either complete or unchanged; text is UTF-8.

    Raises OSError; FileExistsError if it exists and ``replace`` is false.
    """
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            part.replace(path)
        else:
            os.link(part, path)  # unlike rename, it does not replace
    finally:
        part.unlink(missing_ok=True)
