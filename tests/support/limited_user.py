"""Limited user of the session's shards: a test revokes and restores rights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pytest

from acquisition.link.resp import Address, Connection
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.servers.launch import Shards

USER, PASSWORD = "limited-user", "a password"


def rules(
    kinds: Sequence[str], commands: Sequence[str], others: Sequence[str], without: str = "", password: str = PASSWORD
) -> list[str]:
    """Rights of these kinds of keys, of ``commands`` and ``others``, but for one of the kinds or of ``commands``."""
    keys = [f"~{kind}:*" for kind in kinds if kind != without]
    refused = [f"-{without}"] if without in commands else []
    named = [f"+{command}" for command in (*commands, *others)]
    return ["on", "resetpass", f">{password}", "resetkeys", "-@all", *keys, *named, *refused]


def rule(address: Address, *words: str) -> None:
    """Set the user's rights on one shard."""
    with contextlib.closing(Connection(address)) as connection:
        connection.call("ACL", "SETUSER", USER, *words)


@contextlib.contextmanager
def limited(shards: Shards, words: Sequence[str]) -> Iterator[Credentials]:
    """The user, with these rights on all shards; skips the test where there are no rights of subcommands."""
    if shards.redis.release < (7, 0):
        pytest.skip("rights of subcommands take Redis 7")
    for address in shards.addresses:
        rule(address, *words)
    yield Credentials(USER, PASSWORD)
    for address in shards.addresses:
        with contextlib.closing(Connection(address)) as connection:
            connection.call("ACL", "DELUSER", USER)
