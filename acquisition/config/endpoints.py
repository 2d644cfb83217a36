"""Shard addresses, credentials and a connected Cluster, from the settings."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from acquisition.config.settings import Shards
from acquisition.errors import ConfigError, ShardError, ShardpulseError, UsageError
from acquisition.link import state_directory
from acquisition.link.cluster import Cluster
from acquisition.link.local_shards import LocalShards, Seeds, look
from acquisition.link.resp import Address, parse_address
from acquisition.link.trust import admission, trusted_file
from acquisition.link.trust.credentials import PASSWORD_KEY, Credentials, ours


def directory(settings: Shards) -> Path:
    """State directory of local shards: as configured, else a directory of this user."""
    return Path(settings.directory).absolute() if settings.directory else state_directory.default()


def seeds(settings: Shards) -> Seeds:
    """The configured addresses, else the shards started by ``shardpulse shards up`` on this machine."""
    if settings.addresses:
        return [parse_address(text) for text in settings.addresses]
    return LocalShards(str(directory(settings)))


def check(settings: Shards) -> None:
    """Raise ConfigError if the state of local shards is not trusted; it may be missing."""
    with contextlib.suppress(ShardError):
        look(seeds(settings))


def credentials(settings: Shards) -> Credentials:
    """User and password from the configuration; without any, those of this machine's shards if these are meant.

    Raises NoInputError if the password file cannot be read or is empty, ConfigError if it belongs to another user or
    others may read it, or if ``tls_ca`` is not a file of certificates or others may write it, AdmissionError if an
    address is on another machine and there is no ``tls_ca`` or no password.
    """
    found = _credentials(settings)
    if not admission.suffices(found):
        _check_local(list(map(parse_address, settings.addresses)))
    return found


def _check_local(addresses: Sequence[Address]) -> None:
    """Raise AdmissionError for a shard on another machine. A name that does not resolve now is looked up again, and
    checked in the same way, on connection."""
    for address in addresses:
        try:
            found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            continue
        if not any(_leads_here(str(place[0])) for *_, place in found):
            raise admission.demanded(address)


def _leads_here(host: str) -> bool:
    return admission.is_loopback(host) or host in ("0.0.0.0", "::")  # the unspecified address leads to loopback


def _credentials(settings: Shards) -> Credentials:
    authority = _authority(settings.tls_ca) if settings.tls_ca else ""
    if not settings.password_file:
        return _local(settings) or Credentials(settings.username, authority=authority)
    password = trusted_file.first_line(settings.password_file, PASSWORD_KEY)
    path = os.path.abspath(trusted_file.located(settings.password_file, PASSWORD_KEY))
    return Credentials(settings.username, password, _owners(settings), authority, path)


def _authority(path: str) -> str:
    from acquisition.link.trust import tls  # loads OpenSSL

    whole = os.path.abspath(path)
    tls.context(whole)
    trusted_file.check(os.stat(whole), f"key shards.tls_ca: {path}")
    return whole


def _owners(settings: Shards) -> tuple[int, ...]:
    if not settings.owner:
        return ours()
    try:
        return (pwd.getpwnam(settings.owner).pw_uid,)
    except KeyError as error:
        raise ConfigError(f"key shards.owner: no user {settings.owner!r} on this machine") from error


def _local(settings: Shards) -> Credentials | None:
    """Credentials of this machine's shards, if addresses are configured and all are theirs."""
    if not settings.addresses:
        return None  # the look-up of local shards finds them as well
    with contextlib.suppress(ShardpulseError):  # none there, or not trusted: then no credentials
        found = LocalShards(str(directory(settings))).look()
        if {parse_address(text) for text in settings.addresses} <= set(found.addresses):
            return found.credentials
    return None


def connect(settings: Shards) -> Cluster:
    """A Cluster for these settings; it connects on first use."""
    return Cluster(seeds(settings), credentials(settings), settings.timeout_seconds)


def with_addresses(settings: Shards, text: str | None) -> Shards:
    """The settings with the addresses of a ``--shards HOST:PORT,...`` option, if there is one.

    Raises UsageError for an invalid address.
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
        raise UsageError("--shards: expected at least one HOST:PORT")
    return replace(settings, addresses=parts)
