"""Files that are believed only if nobody else can have written them.

A name in /tmp or /dev/shm can be anybody's, so it decides nothing: the directory is opened once, who owns it and what
stands in it is asked of what was opened, and the file is opened in that very directory, through no link.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import os
import stat

from acquisition.errors import ConfigError

_OTHERS_WRITE = 0o022
_OTHERS_READ = 0o077
_LENT_OTHERS_READ = 0o037
_HINT = ": choose another directory with --dir, or name the shards with --shards HOST:PORT or in the [shards] table"


def read(directory: str, name: str, secret: bool = False) -> bytes:
    """What the file ``name`` in ``directory`` holds.

    Raises FileNotFoundError when there is no such file, other OSErrors when it cannot be read, and ConfigError when
    file or directory is another user's (root's is believed), when others may write it, or read a ``secret``.
    """
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        check(os.fstat(place), directory, hint=_HINT)
        path = os.path.join(directory, name)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not keep us waiting
        with open(os.open(name, flags, dir_fd=place), "rb") as file:
            check(os.fstat(file.fileno()), path, secret, _HINT)
            return file.read()
    finally:
        os.close(place)


def check(status: os.stat_result, path: str, secret: bool = False, hint: str = "", lent: bool = False) -> None:
    """Raise ConfigError when what was opened at ``path`` is not to be believed; ``hint`` says what to do then. Of a
    ``secret`` that is ``lent`` in a directory of this user alone, what looks like rights of the group is none."""
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{path} belongs to another user (uid {status.st_uid}), so it is not believed{hint}")
    check_writers(status, path)
    if secret and stat.S_IMODE(status.st_mode) & (_LENT_OTHERS_READ if lent else _OTHERS_READ):
        raise ConfigError(f"others may read {path}: chmod 600 it")


def check_writers(status: os.stat_result, path: str) -> None:
    """Raise ConfigError when others may write what was opened at ``path``."""
    mode = stat.S_IMODE(status.st_mode)
    if mode & _OTHERS_WRITE:
        raise ConfigError(f"others may write {path} (mode {mode:04o}), so it is not believed: chmod go-w it")
