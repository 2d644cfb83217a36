"""Password directory of ``shards render`` and ``shards passwords``.

It contains one file per user.

``USER`` holds the valid password; ``USER.next`` the one that a rotation is about to replace it with.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from acquisition import private_files
from acquisition.errors import CannotCreateError, ConfigError, NoInputError
from acquisition.link.trust import trusted_file

_NEXT = ".next"


def of_all(directory: Path, users: Sequence[str]) -> dict[str, str]:
    """Password of each user; missing ones are created at random, with mode 0600.

    Raises CannotCreateError, NoInputError, ConfigError.
    """
    try:
        private_files.make_secrets_directory(directory)
        return {user: _read_or_make(directory, user) for user in users}
    except OSError as error:
        raise CannotCreateError(f"cannot store passwords in {directory}: {error}") from error


def begin(directory: Path, users: Sequence[str]) -> dict[str, str]:
    """Next password of each user, created unless a rotation was begun before. Raises as ``of_all``."""
    made = of_all(directory, [user + _NEXT for user in users])
    return {user: made[user + _NEXT] for user in users}


def coming(directory: Path, users: Sequence[str]) -> dict[str, str]:
    """Passwords of begun rotations, by user. Raises NoInputError, ConfigError."""
    found = {}
    for user in users:
        try:
            found[user] = _read(directory, user + _NEXT)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise NoInputError(f"cannot read {directory / user}{_NEXT}: {error.strerror}") from error
    return found


def finish(directory: Path, user: str) -> None:
    """Make the next password the valid one. Raises CannotCreateError."""
    try:
        os.replace(directory / (user + _NEXT), directory / user)
    except OSError as error:
        raise CannotCreateError(f"cannot replace {directory / user}: {error.strerror}") from error


def _read_or_make(directory: Path, name: str) -> str:
    try:
        return _read(directory, name)
    except FileNotFoundError:
        text = os.urandom(32).hex()
        private_files.write(directory / name, f"{text}\n", replace=True)
        return text


def _read(directory: Path, name: str) -> str:
    try:
        text = trusted_file.read(str(directory), name, secret=True).decode().partition("\n")[0].rstrip("\r")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{directory / name} is not text") from error
    if not text:
        raise NoInputError(f"{directory / name} contains no password")
    if any(character.isspace() or character in "\"'\\" for character in text):
        raise ConfigError(f"{directory / name}: a password may not contain blanks or quotes")
    return text
