"""From settings to shards: where they listen, with which credentials, and a connected Cluster."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import msgspec

from acquisition.config.settings import Shards
from acquisition.errors import ConfigError, NoInputError, ShardError, UsageError
from acquisition.link import state_directory
from acquisition.link.cluster import Cluster
from acquisition.link.local_shards import LocalShards, Seeds, look
from acquisition.link.resp import Credentials, parse_address


def directory(settings: Shards) -> Path:
    """Where the state of local shards lives: as configured, else a directory of this user."""
    return Path(settings.directory).absolute() if settings.directory else state_directory.default()


def seeds(settings: Shards) -> Seeds:
    """The configured addresses, else the shards that ``shardpulse shards up`` started on this machine."""
    if settings.addresses:
        return [parse_address(text) for text in settings.addresses]
    return LocalShards(str(directory(settings)))


def check(settings: Shards) -> None:
    """Raise ConfigError when the state of local shards is not to be believed; there may be none yet."""
    with contextlib.suppress(ShardError):
        look(seeds(settings))


def credentials(settings: Shards) -> Credentials:
    """User and password. Raises NoInputError when the password file cannot be read or
    is empty, ConfigError when others may read it."""
    if not settings.password_file:
        return Credentials(settings.username)
    try:
        with open(settings.password_file, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ConfigError(f"key shards.password_file: others may read {settings.password_file}: chmod 600 it")
            password = file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise NoInputError(f"key shards.password_file: {settings.password_file} cannot be read: {error}") from error
    if not password:
        raise NoInputError(f"key shards.password_file: {settings.password_file} holds no password")
    return Credentials(settings.username, password)


def connect(settings: Shards) -> Cluster:
    """A Cluster for these settings; it connects when it is first used."""
    return Cluster(seeds(settings), credentials(settings), settings.timeout_seconds)


def with_addresses(settings: Shards, text: str | None) -> Shards:
    """The settings with the addresses of a ``--shards HOST:PORT,...`` option, if there is one.

    Raises UsageError when an address is none.
    """
    if text is None:
        return settings
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        for part in parts:
            parse_address(part)
    except ValueError as error:
        raise UsageError(f"--shards: {error}") from error
    if not parts:
        raise UsageError("--shards: name at least one HOST:PORT")
    return msgspec.structs.replace(settings, addresses=parts)
