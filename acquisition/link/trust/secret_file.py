"""Files that hold a secret: of mode 0600, or lent to a unit by systemd (LoadCredential of systemd.exec(5)).

A configuration names the latter as ``$CREDENTIALS_DIRECTORY/NAME``, since only the unit knows where they lie. systemd
lets the unit's user read them by an ACL, whose mask stat(2) shows as rights of the group, and closes the directory to
everybody else; so within it, and only there, 0440 and 0640 are as good as 0400 and 0600.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from acquisition.errors import NoInputError
from acquisition.link.trust import trusted_file

_VARIABLE = "CREDENTIALS_DIRECTORY"
_OPEN = 0o027  #: of a directory: others have any right, or the group writes


def located(path: str, label: str) -> str:
    """Where the file ``path`` of a configuration lies; ``label`` is what errors begin with.

    Raises NoInputError when systemd has lent nothing.
    """
    beginning = f"${_VARIABLE}/"
    if not path.startswith(beginning):
        return path
    if not os.environ.get(_VARIABLE):
        raise NoInputError(f"{label}: there is no ${_VARIABLE}: it is of units of systemd with LoadCredential")
    return os.path.join(os.environ[_VARIABLE], path.removeprefix(beginning))


def opened(path: str, label: str) -> BinaryIO:
    """The file, open. Raises NoInputError when it cannot be read, ConfigError when it is another user's (root's is
    believed) or when others may read or write it."""
    found = located(path, label)
    try:
        file = open(found, "rb")  # noqa: SIM115 (the caller closes it)
    except OSError as error:
        raise NoInputError(f"{label}: {path} cannot be read: {error.strerror}") from error
    try:
        trusted_file.check(os.fstat(file.fileno()), f"{label}: {path}", secret=True, lent=_is_lent(found))
    except BaseException:
        file.close()
        raise
    return file


def first_line(path: str, label: str) -> str:
    """The secret: the first line of the file. Raises as ``opened``, and NoInputError if absent."""
    try:
        with opened(path, label) as file:
            secret = file.readline().decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise NoInputError(f"{label}: {path} cannot be read: {error}") from error
    if not secret:
        raise NoInputError(f"{label}: {path} holds no password")
    return secret


def _is_lent(path: str) -> bool:
    place = os.environ.get(_VARIABLE, "").rstrip("/")
    if not place or os.path.dirname(os.path.abspath(path)) != place:
        return False
    found = os.stat(place)
    return found.st_uid in (0, os.geteuid()) and not stat.S_IMODE(found.st_mode) & _OPEN
