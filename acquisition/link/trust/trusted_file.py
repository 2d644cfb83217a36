"""Files that are trusted only if no other user can have written them.

A name in /tmp or /dev/shm can be anyone's, so it decides nothing: the directory is opened once, its owner and contents
are checked on the open descriptor, and the file is opened in that very directory without following links.

A secret is in a file of mode 0600, or in one that systemd lends to a unit (LoadCredential of systemd.exec(5)). A
configuration names the latter ``$CREDENTIALS_DIRECTORY/NAME``, since only the unit knows the directory. systemd
grants access to the unit's user by an ACL, whose mask stat(2) shows as group permissions, and closes the directory to
all others; so within it, and only there, 0440 and 0640 are as safe as 0400 and 0600.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from acquisition.errors import ConfigError, NoInputError

_VARIABLE = "CREDENTIALS_DIRECTORY"
_OPEN = 0o027  #: of a directory: others have any permission, or the group may write
_OTHERS_WRITE = 0o022
_OTHERS_READ = 0o077
_LENT_OTHERS_READ = 0o037
_HINT = ": choose another directory with --dir, or give the shards with --shards HOST:PORT or in the [shards] table"


def read(directory: str, name: str, secret: bool = False) -> bytes:
    """Content of the file ``name`` in ``directory``.

    Raises FileNotFoundError if there is no such file, other OSErrors if it cannot be read, and ConfigError if
    file or directory belongs to another user (root is trusted), if others may write it, or read a ``secret``.
    """
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        check(os.fstat(place), directory, hint=_HINT)
        path = os.path.join(directory, name)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # do not block on a FIFO
        with open(os.open(name, flags, dir_fd=place), "rb") as file:
            check(os.fstat(file.fileno()), path, secret, _HINT)
            return file.read()
    finally:
        os.close(place)


def check(status: os.stat_result, path: str, secret: bool = False, hint: str = "", lent: bool = False) -> None:
    """Raise ConfigError if the file opened at ``path`` is not trusted; ``hint`` is the remedy. For a ``secret``
    that is ``lent`` in a directory of this user alone, apparent group permissions do not count."""
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{path} belongs to another user (uid {status.st_uid}) and is not trusted{hint}")
    check_writers(status, path)
    if secret and stat.S_IMODE(status.st_mode) & (_LENT_OTHERS_READ if lent else _OTHERS_READ):
        raise ConfigError(f"{path} is readable by other users: run chmod 600 on it")


def check_writers(status: os.stat_result, path: str) -> None:
    """Raise ConfigError if others may write the file opened at ``path``."""
    mode = stat.S_IMODE(status.st_mode)
    if mode & _OTHERS_WRITE:
        raise ConfigError(
            f"{path} is writable by other users (mode {mode:04o}) and is not trusted: run chmod go-w on it"
        )


def located(path: str, label: str) -> str:
    """Location of the file ``path`` of a configuration; errors begin with ``label``.

    Raises NoInputError if systemd has lent nothing.
    """
    beginning = f"${_VARIABLE}/"
    if not path.startswith(beginning):
        return path
    if not os.environ.get(_VARIABLE):
        raise NoInputError(f"{label}: ${_VARIABLE} is not set; systemd sets it for units with LoadCredential")
    return os.path.join(os.environ[_VARIABLE], path.removeprefix(beginning))


def opened(path: str, label: str) -> BinaryIO:
    """The file, open. Raises NoInputError if it cannot be read, ConfigError if it belongs to another user (root is
    trusted) or if others may read or write it."""
    found = located(path, label)
    try:
        file = open(found, "rb")  # noqa: SIM115 (the caller closes it)
    except OSError as error:
        raise NoInputError(f"{label}: cannot read {path}: {error.strerror}") from error
    try:
        check(os.fstat(file.fileno()), f"{label}: {path}", secret=True, lent=_is_lent(found))
    except BaseException:
        file.close()
        raise
    return file


def first_line(path: str, label: str) -> str:
    """Secret: the first line of the file. Raises as ``opened``, and NoInputError if absent."""
    try:
        with opened(path, label) as file:
            secret = file.readline().decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise NoInputError(f"{label}: cannot read {path}: {error}") from error
    if not secret:
        raise NoInputError(f"{label}: no password in {path}")
    return secret


def _is_lent(path: str) -> bool:
    place = os.environ.get(_VARIABLE, "").rstrip("/")
    if not place or os.path.dirname(os.path.abspath(path)) != place:
        return False
    found = os.stat(place)
    return found.st_uid in (0, os.geteuid()) and not stat.S_IMODE(found.st_mode) & _OPEN
