"""Files of secrets: read as any secret is (mode 0600, or lent by systemd), and written so that they are whole."""

from __future__ import annotations

import os
from pathlib import Path

from acquisition.config.signing import FilterSigning
from acquisition.errors import CannotCreateError, ConfigError, DataError, NoInputError
from acquisition.link import secret_file
from acquisition.model.identity import host_id
from acquisition.signing import texts
from acquisition.wire.signature import HostKey, Verifier

MASTERS_KEY, HOST_KEY = "key filter.signing.key_file", "key probe.signing.key_file"
_MOST_BYTES = 4096


def read_masters(path: str, label: str) -> list[bytes]:
    """The masters in a file; ``label`` is what errors begin with. Raises NoInputError and ConfigError."""
    try:
        return texts.parse_masters(read(path, label))
    except DataError as error:
        raise ConfigError(f"{label}: {path} holds {error}") from error


def read_host_key(path: str, host_name: str) -> HostKey:
    """The key of this host's probe. Raises NoInputError, and ConfigError also where it is another host's."""
    try:
        host, key = texts.parse_host_key(read(path, HOST_KEY))
    except DataError as error:
        raise ConfigError(f"{HOST_KEY}: {path} holds {error}") from error
    if host != host_id(host_name):
        raise ConfigError(
            f"{HOST_KEY}: {path} holds the key of host {host:016x}, and this host is {host_name} "
            f"({host_id(host_name):016x}): make its own with `shardpulse keys host`"
        )
    return key


def verifier_of(settings: FilterSigning) -> Verifier | None:
    """What verifies frames as configured; None: signatures are not looked at. Raises NoInputError and ConfigError."""
    if not settings.key_file:
        return None
    return Verifier(read_masters(settings.key_file, MASTERS_KEY), settings.required)


def write(path: Path, text: str, replace: bool = False) -> None:
    """A file of mode 0600, whole or as it was before. Raises CannotCreateError, also for one that is there unless it
    is to ``replace``."""
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                os.replace(part, path)
            else:
                os.link(part, path)  # unlike rename, it refuses to replace
        finally:
            part.unlink(missing_ok=True)
    except FileExistsError as error:
        raise CannotCreateError(f"{path} is there and is not overwritten") from error
    except OSError as error:
        raise CannotCreateError(f"{path} cannot be made: {error.strerror}") from error


def read(path: str, label: str) -> str:
    """The text of a file of secrets. Raises NoInputError, ConfigError."""
    try:
        with secret_file.opened(path, label) as file:
            return file.read(_MOST_BYTES).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise NoInputError(f"{label}: {path} cannot be read: {reason}") from error
