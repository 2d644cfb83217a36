"""The ACL users of local shards: what each may do, and the files that say so to servers and clients.

Loopback is no border: other users of the machine are strangers. The default user is off; what is not listed here is
refused, in Redis 6.2 as well as 7. Passwords are random, lie in files of mode 0600, and are in no command line.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from acquisition import private_files
from acquisition.errors import CannotCreateError
from acquisition.link.trust.credentials import (
    ADMINISTRATOR,
    PASSWORDS_FILE,
    PIPELINE,
    REPLICA,
    WRITER_TOKEN_FILE,
    local,
)
from acquisition.shards.servers import configuration, grants

ACL_FILE = "users.acl"  #: in the state directory, read by every server when it starts
#: What each user may call; the pipeline's does the work of all parts.
COMMANDS = {
    PIPELINE: grants.commands((grants.PROBE, grants.FILTER, grants.SERVE, grants.ARCHIVE, grants.OBSERVER)),
    ADMINISTRATOR: grants.USERS[grants.OPERATOR][0].commands,
    REPLICA: grants.commands([grants.REPLICATION]),
}
_KEYS = {PIPELINE: "~*", ADMINISTRATOR: "~*", REPLICA: ""}


def write(directory: Path) -> dict[str, str]:
    """Make passwords and write the files; answers what each server's configuration needs. Raises CannotCreateError."""
    passwords = {user: os.urandom(32).hex() for user in COMMANDS}
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_files.write(directory / ACL_FILE, acl(passwords), replace=True)
        private_files.write(directory / PASSWORDS_FILE, json.dumps(passwords, indent=1) + "\n", replace=True)
        private_files.write(directory / WRITER_TOKEN_FILE, f"{os.urandom(32).hex()}\n", replace=True)
    except OSError as error:
        raise CannotCreateError(f"the users of the shards cannot be kept in {directory}: {error.strerror}") from error
    return configuration.users(str(directory / ACL_FILE), REPLICA, passwords[REPLICA])


def read(directory: Path) -> dict[str, str]:
    """What ``write`` answered. Raises ConfigError when the passwords cannot be read."""
    return configuration.users(str(directory / ACL_FILE), REPLICA, local(str(directory), REPLICA).password)


def remove(directory: Path) -> None:
    """Remove the files; they may be gone already."""
    for name in (ACL_FILE, PASSWORDS_FILE, WRITER_TOKEN_FILE):
        (directory / name).unlink(missing_ok=True)


def acl(passwords: dict[str, str]) -> str:
    """The file of users (Redis, "ACL"): hashes of passwords, keys and commands."""
    lines = [grants.NOBODY]
    for user, password in passwords.items():
        allowed = " ".join(f"+{command}" for command in COMMANDS[user].split())
        lines.append(
            " ".join(f"user {user} on #{grants.hashed(password)} resetchannels {_KEYS[user]} -@all {allowed}".split())
        )
    return "".join(f"{line}\n" for line in lines)
