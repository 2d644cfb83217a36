"""Users of the shards with their permissions: one table (Redis, "ACL").

From it ``shards render`` writes users of Redis 7, one for each part, and ``shards up`` the few of a machine's own
shards, with lists that Redis 6.2 reads as well. The lists were made by running the real parts with them, and by trying
forbidden commands (tests/acquisition/shards, test_tls.py and test_grants.py).

Loopback is no border: other users of the machine are strangers. The default user is off; anything not listed here is
refused, in Redis 6.2 as well as 7. Passwords are random, in files of mode 0600, and never in a command line.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

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
from acquisition.shards.servers import configuration
from acquisition.wire import keys

ACL_FILE = "users.acl"  #: in the state directory, read by every server when it starts

_ANY = "*"  #: in place of a hash tag: of every partition


class Grant(NamedTuple):
    """Some commands on some keys. A key is ``read``, ``written`` or both; ``{}`` in it stands for the hash tag and HOST
    for the host of a probe."""

    commands: str
    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()

    def rules(self, tag: str = _ANY, host: str = _ANY) -> list[str]:
        """Rules in the syntax of Redis 7; limited to one partition and one host if these are given."""
        both = set(self.read) & set(self.written)
        modes = {key: "~" if key in both else "%R~" if key in self.read else "%W~" for key in self.read + self.written}
        patterns = [mode + key.replace("{}", f"{{{tag}}}").replace("HOST", host) for key, mode in modes.items()]
        return [*patterns, *(f"+{command}" for command in self.commands.split())]


_ASK = "ping cluster|slots"
_READ = (
    f"{_ASK} asking cluster|nodes info time get mget getrange hget hmget hgetall pttl scan zrange xlen xrange "
    "multi exec"
)
_LEASES = "eval evalsha get pexpire pttl set del zadd zrange zrem"
_TOLD = ("events:{}", "told:{}")
_TELL = Grant("eval hget hset hdel pexpire xadd", _TOLD, _TOLD)
_NOTE = Grant("hset pexpire", written=(keys.SETTLED,))  # notes of readers for each other
#: Keys written by filters before 0.1.0: during an upgrade such filters still run beside these users.
_EARLIER = Grant("get set del expire xadd xlen", ("hosts:{}:*", "sought:{}"), ("hosts:{}:*",))
_RECORDS = ("commit:{}", "applied:{}", "dormant:{}", "smoothed:{}:*", "recent:{}:*", "names:{}:*")
_FILTERED = (
    *_RECORDS,
    "raw:{}",
    "rejected:{}",
    "refused:{}",
    "lease:{}",
    "began:{}",
    "workers:{}",
    "cut:{}",
    "readers:{}",
)
_LAYOUTS = "layout:*"  #: all copies, of any partition
_ARCHIVERS = ("archiver:{}", "archivers:{}")

PROBE, FILTER, READER, SERVE = "probe", "filter", "reader", "serve"
ARCHIVE, OBSERVER, OPERATOR, REPLICATION = "archive", "observer", "operator", "replication"
KEEPER = "keeper"
USERS: dict[str, tuple[Grant, ...]] = {
    PROBE: (
        Grant(f"{_ASK} get hmget xrange", (_LAYOUTS, "commit:{}", "applied:{}", "rejected:{}")),
        Grant("xadd", written=("raw:{}",)),
        Grant("set", written=("status:{}:HOST",)),
    ),
    FILTER: (
        Grant(
            f"{_ASK} asking time script|load watch unwatch multi exec get mget getrange set setrange strlen del expire "
            "pexpire pttl hget hmget hgetall hkeys hlen hset hdel xadd xlen xread xtrim zadd zrange zrem eval evalsha",
            _FILTERED,
            _FILTERED,
        ),
        Grant("get pttl", (_LAYOUTS,)),
        _EARLIER,
        Grant("set", written=(_LAYOUTS,)),
        Grant("xinfo|stream xrevrange", ("raw:{}",)),  # the following is for the guard (filters/worker/loop/guard.py)
        Grant("scan"),
        Grant("strlen del", ("status:*", "raw:*"), ("status:*", "raw:*")),
        Grant("xadd pexpire", ("events:{}",), ("events:{}",)),
    ),
    READER: (Grant(_READ, (_ANY,)), _NOTE),
    SERVE: (Grant(_READ, (_ANY,)), _NOTE, _TELL, Grant("xadd", written=(keys.MIGRATIONS,))),
    ARCHIVE: (
        Grant(f"{_READ} script|load xread xrevrange", (_ANY,)),
        _TELL,
        Grant("hset pexpire", written=("readers:{}",)),
        Grant("set", written=("archived:{}",)),
        Grant(_LEASES, _ARCHIVERS, _ARCHIVERS),
    ),
    OBSERVER: (Grant(_READ, (_ANY,)),),
    OPERATOR: (
        Grant(
            f"{_ASK} asking cluster info time get set hgetall xlen xtrim config|get config|set client|list "
            "client|unblock memory|usage migrate restore restore-asking select",
            (_ANY,),
            (_ANY,),
        ),
        Grant("acl|list"),
        Grant("watch multi exec", ("commit:{}",)),  # the following is for `shardpulse hosts forget`
        Grant("hdel", written=("applied:{}", "dormant:{}")),
        Grant("hset", written=("dormant:{}",)),
        Grant("del", written=("status:{}:*", "names:{}:*")),
    ),
    KEEPER: (Grant(f"{_ASK} cluster|nodes acl|getuser acl|setuser client|kill config|set"),),
    REPLICATION: (Grant("ping psync replconf"),),
}
NOBODY = "user default off resetpass resetkeys resetchannels -@all"


def line(name: str, grants: Sequence[Grant], password: str, tag: str = _ANY, host: str = _ANY, coming: str = "") -> str:
    """Line of user ``name`` in a file of users, with the hash of its password and of the ``coming`` one; limited to
    one partition (its hash tag) and one host (its id in hexadecimal) if these are given."""
    root, *rest = (" ".join(grant.rules(tag, host)) for grant in grants)
    selectors = "".join(f" (-@all {one})" for one in rest)
    known = " ".join(f"#{hashed(one)}" for one in (password, coming) if one)
    return f"user {name} on {known} resetchannels -@all {root}{selectors}"


def hashed(password: str) -> str:
    """Hash of a password as stored by Redis."""
    return hashlib.sha256(password.encode()).hexdigest()


def commands(users: Iterable[str]) -> str:
    """All commands that any of these users may call, for a user with the work of all."""
    return " ".join(dict.fromkeys(word for user in users for grant in USERS[user] for word in grant.commands.split()))


# -- The users of a machine's own shards, in files for servers and clients.

#: Commands of each user of local shards; the pipeline's does the work of all parts.
LOCAL_USERS = {
    PIPELINE: commands((PROBE, FILTER, SERVE, ARCHIVE, OBSERVER)),
    ADMINISTRATOR: USERS[OPERATOR][0].commands,
    REPLICA: commands([REPLICATION]),
}
_KEYS = {PIPELINE: "~*", ADMINISTRATOR: "~*", REPLICA: ""}


def write_local(directory: Path) -> dict[str, str]:
    """Make passwords and write the files; returns entries for each server's configuration. Raises CannotCreateError."""
    passwords = {user: os.urandom(32).hex() for user in LOCAL_USERS}
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_files.write(directory / ACL_FILE, acl(passwords), replace=True)
        private_files.write(directory / PASSWORDS_FILE, json.dumps(passwords, indent=1) + "\n", replace=True)
        private_files.write(directory / WRITER_TOKEN_FILE, f"{os.urandom(32).hex()}\n", replace=True)
    except OSError as error:
        raise CannotCreateError(f"cannot store the shards' users in {directory}: {error.strerror}") from error
    return configuration.users(str(directory / ACL_FILE), REPLICA, passwords[REPLICA])


def read_local(directory: Path) -> dict[str, str]:
    """Passwords returned by ``write_local``. Raises ConfigError if they cannot be read."""
    return configuration.users(str(directory / ACL_FILE), REPLICA, local(str(directory), REPLICA).password)


def remove_local(directory: Path) -> None:
    """Remove the files; they may be gone already."""
    for name in (ACL_FILE, PASSWORDS_FILE, WRITER_TOKEN_FILE):
        (directory / name).unlink(missing_ok=True)


def acl(passwords: Mapping[str, str]) -> str:
    """Content of the users file (Redis, "ACL"): hashes of passwords, keys and commands."""
    lines = [NOBODY]
    for user, password in passwords.items():
        allowed = " ".join(f"+{command}" for command in LOCAL_USERS[user].split())
        lines.append(
            " ".join(f"user {user} on #{hashed(password)} resetchannels {_KEYS[user]} -@all {allowed}".split())
        )
    return "".join(f"{line}\n" for line in lines)
