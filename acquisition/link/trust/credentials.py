"""Credentials for shards: user, password, and the owners allowed to receive them.

Those of local shards are in a file of mode 0600 beside their state file (``shards up`` writes it, ``down`` removes it),
and are read again at every look-up of shards; those of other shards come from the configuration.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from acquisition.errors import ConfigError, NoInputError, ShardError
from acquisition.link.trust import trusted_file

PASSWORD_KEY = "key shards.password_file"  #: label in errors
PASSWORDS_FILE = "passwords.json"  #: in the state directory
WRITER_TOKEN_FILE = "writer.token"  #: in the state directory: token required by `serve` from clients that write
PIPELINE = "shardpulse"  #: the user of probe, filter and readers
ADMINISTRATOR = "shardpulse-admin"  #: the user of ``shardpulse shards``
REPLICA = "shardpulse-replica"  #: the user of replicas at their masters


class Credentials(NamedTuple):
    """ACL user and password; an empty password is not sent. On loopback it is sent only to processes
    of ``owners`` (user ids), unless there are none. ``authority`` is a file with the certificates that vouch for the
    shards, and means TLS; "" for none. ``password_file`` is the file the password was read from, "" for none:
    it is read again for each login, so that it can be replaced. ``expired`` are certificates (DER) that are
    accepted although expired: ``acquisition.link.trust.expired``."""

    username: str = "default"
    password: str = ""
    owners: tuple[int, ...] = ()
    authority: str = ""
    password_file: str = ""
    expired: tuple[bytes, ...] = ()

    def secret(self) -> str:
        """The current password. Raises ShardError if it cannot be read: a file being replaced may be
        complete the next time."""
        if not self.password_file:
            return self.password
        try:
            return trusted_file.first_line(self.password_file, PASSWORD_KEY)
        except (NoInputError, ConfigError) as error:
            raise ShardError(str(error)) from error


def ours() -> tuple[int, ...]:
    """Users whose processes are trusted as shards: this one and root."""
    return tuple({0, os.geteuid()})


def local(directory: str, user: str = PIPELINE) -> Credentials:
    """Credentials of a user of the shards with their state in ``directory``.

    Raises ShardError if they are gone, with the shards, ConfigError if they cannot be read.
    """
    try:
        return Credentials(
            user, str(json.loads(trusted_file.read(directory, PASSWORDS_FILE, secret=True))[user]), ours()
        )
    except FileNotFoundError as error:
        raise ShardError(
            f"{os.path.join(directory, PASSWORDS_FILE)} is missing: its shards have been stopped"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        path = os.path.join(directory, PASSWORDS_FILE)
        raise ConfigError(f"cannot read the shards' passwords in {path}: {error!r}") from error
