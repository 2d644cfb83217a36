"""Secret files for signing: read with mode 0600 checked, written atomically.

systemd may lend them to a unit instead.
"""

from __future__ import annotations

import re
from pathlib import Path

from acquisition import private_files
from acquisition.config.settings import FilterSigning
from acquisition.errors import CannotCreateError, ConfigError, DataError, NoInputError
from acquisition.link.trust import trusted_file
from acquisition.model.identity import host_id
from acquisition.wire.signature import HostKey, Verifier

# -- Content of secret files: one line per secret, beginning with its purpose (pure).
#
# ::
#
# shardpulse-master-key SECRET              of filters and archivers; keys are made from the first line
# shardpulse-host-key HOST NUMBER SECRET    of the probe of one host
#
# SECRET is 64 hex digits, HOST the host id in 16, NUMBER that of the master in 8.

_MASTER, _HOST = "shardpulse-master-key", "shardpulse-host-key"
_MASTER_LINE = re.compile(rf"{_MASTER} ([0-9a-f]{{64}})")
_HOST_LINE = re.compile(rf"{_HOST} ([0-9a-f]{{16}}) ([0-9a-f]{{8}}) ([0-9a-f]{{64}})")
MOST_MASTERS = 2  #: the current one, and the one before


def masters_text(masters: list[bytes]) -> str:
    """Text of a file of masters."""
    return "".join(f"{_MASTER} {master.hex()}\n" for master in masters)


def parse_masters(text: str) -> list[bytes]:
    """Masters in a file, the current one first. Raises DataError, which never shows the content."""
    lines = text.splitlines()
    found = [_MASTER_LINE.fullmatch(line) for line in lines]
    if not 1 <= len(lines) <= MOST_MASTERS:
        raise DataError(f"{len(lines)} lines, expected one or two masters")
    if any(line.startswith(_HOST) for line in lines):
        raise DataError("a host key, expected masters")
    masters = [bytes.fromhex(match[1]) for match in found if match]
    if len(masters) < len(lines):
        raise DataError(f"no master key in line {found.index(None) + 1}")
    return masters


def host_key_text(host: int, key: HostKey) -> str:
    """Text of a host's file."""
    return f"{_HOST} {host:016x} {key.number.hex()} {key.secret.hex()}\n"


def parse_host_key(text: str) -> tuple[int, HostKey]:
    """Host id and key in a host's file. Raises DataError, which never shows the content."""
    if text.startswith(_MASTER):
        raise DataError("a master key, which is only for filters and archivers; expected a host key")
    match = _HOST_LINE.fullmatch(text.removesuffix("\n"))
    if match is None:
        raise DataError("no host key")
    return int(match[1], 16), HostKey(bytes.fromhex(match[2]), bytes.fromhex(match[3]))


MASTERS_KEY, HOST_KEY = "key filter.signing.key_file", "key probe.signing.key_file"
_MOST_BYTES = 4096


def read_masters(path: str, label: str) -> list[bytes]:
    """Masters in a file; errors begin with ``label``. Raises NoInputError and ConfigError."""
    try:
        return parse_masters(read(path, label))
    except DataError as error:
        raise ConfigError(f"{label}: {path} contains {error}") from error


def read_host_key(path: str, host_name: str) -> HostKey:
    """Key of this host's probe. Raises NoInputError, and ConfigError also if it belongs to another host."""
    try:
        host, key = parse_host_key(read(path, HOST_KEY))
    except DataError as error:
        raise ConfigError(f"{HOST_KEY}: {path} contains {error}") from error
    if host != host_id(host_name):
        raise ConfigError(
            f"{HOST_KEY}: {path} contains the key of host {host:016x}, but this host is {host_name} "
            f"({host_id(host_name):016x}); create its key with `shardpulse keys host`"
        )
    return key


def verifier_of(settings: FilterSigning) -> Verifier | None:
    """Verifier of frames as configured; None: signatures are not checked. Raises NoInputError and ConfigError."""
    if not settings.key_file:
        return None
    return Verifier(read_masters(settings.key_file, MASTERS_KEY), settings.required)


def write(path: Path, text: str, replace: bool = False) -> None:
    """Write a file of mode 0600, complete or unchanged. Raises CannotCreateError, also if it exists and ``replace``
    is false."""
    try:
        private_files.make_secrets_directory(path.parent)
        private_files.write(path, text, replace)
    except FileExistsError as error:
        raise CannotCreateError(f"{path} already exists") from error
    except OSError as error:
        raise CannotCreateError(f"cannot create {path}: {error.strerror}") from error


def read(path: str, label: str) -> str:
    """Text of a secret file. Raises NoInputError, ConfigError."""
    try:
        with trusted_file.opened(path, label) as file:
            return file.read(_MOST_BYTES).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise NoInputError(f"{label}: cannot read {path}: {reason}") from error
