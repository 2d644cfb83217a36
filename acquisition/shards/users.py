"""The ACL users of local shards: what each may do, and the files that say so to servers and clients.

Loopback is no border: other users of the machine are strangers. The default user is off; what is not listed here is
refused, in Redis 6.2 as well as 7. Passwords are random, lie in files of mode 0600, and are in no command line.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from acquisition.errors import CannotCreateError
from acquisition.link.credentials import ADMINISTRATOR, PASSWORDS_FILE, PIPELINE, REPLICA, local

ACL_FILE = "users.acl"  #: in the state directory, read by every server when it starts
_CONNECTION = "ping asking cluster|slots"
#: What each user may call; the lists were made by running the real parts with them (tests/acquisition/shards).
COMMANDS = {
    PIPELINE: f"{_CONNECTION} cluster|nodes cluster|info config|get info time "
    "get mget getrange set setrange strlen del "
    "expire pexpire pttl scan hget hmget hgetall hkeys hlen hset hdel xadd xlen xrange xread xrevrange xtrim "
    "zadd zrange zrem watch unwatch multi exec discard eval evalsha script|load",
    ADMINISTRATOR: f"{_CONNECTION} cluster info time get set hgetall xlen xtrim config|get config|set client|list "
    "client|unblock memory|usage migrate restore restore-asking select",
    REPLICA: "ping psync replconf",
}
_KEYS = {PIPELINE: "~*", ADMINISTRATOR: "~*", REPLICA: ""}


def write(directory: Path) -> dict[str, str]:
    """Make passwords and write both files; answers what each server's configuration needs. Raises CannotCreateError."""
    passwords = {user: os.urandom(32).hex() for user in COMMANDS}
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secret(directory / ACL_FILE, acl(passwords))
        write_secret(directory / PASSWORDS_FILE, json.dumps(passwords, indent=1) + "\n")
    except OSError as error:
        raise CannotCreateError(f"the users of the shards cannot be kept in {directory}: {error.strerror}") from error
    return directives(directory, passwords[REPLICA])


def read(directory: Path) -> dict[str, str]:
    """What ``write`` answered. Raises ConfigError when the passwords cannot be read."""
    return directives(directory, local(str(directory), REPLICA).password)


def remove(directory: Path) -> None:
    """Remove both files; they may be gone already."""
    for name in (ACL_FILE, PASSWORDS_FILE):
        (directory / name).unlink(missing_ok=True)


def directives(directory: Path, replica_password: str) -> dict[str, str]:
    """What a server's configuration says of its users."""
    return {
        "aclfile": f'"{directory / ACL_FILE}"',
        "masteruser": REPLICA,
        "masterauth": replica_password,
    }


def acl(passwords: dict[str, str]) -> str:
    """The file of users (Redis, "ACL"): hashes of passwords, keys and commands."""
    lines = ["user default off resetpass resetkeys resetchannels -@all"]
    for user, password in passwords.items():
        hashed = hashlib.sha256(password.encode()).hexdigest()
        allowed = " ".join(f"+{command}" for command in COMMANDS[user].split())
        lines.append(" ".join(f"user {user} on #{hashed} resetchannels {_KEYS[user]} -@all {allowed}".split()))
    return "".join(f"{line}\n" for line in lines)


def write_secret(path: Path, text: str) -> None:
    """Write a file that nobody else may ever read."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    part.replace(path)
