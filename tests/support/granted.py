"""Granted shards: a user for each part, for one test (Redis 7)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from acquisition.link.resp import Connection
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.servers import grants
from acquisition.shards.servers.launch import Shards
from acquisition.wire import keys

PASSWORD = "a password"
TAG = keys.tags(keys.DEFAULT_PARTITIONS)[0]
HOST = "0123456789abcdef"
OF_HOST = "probe@host"  #: of ``HOST`` and ``TAG`` alone


def user(name: str) -> Credentials:
    """As a part has them."""
    return Credentials(name, PASSWORD)


@contextlib.contextmanager
def granted(shards: Shards) -> Iterator[Shards]:
    """The shards with all users of the table; skips the test where they cannot have them."""
    if shards.redis.release < (7, 0):
        pytest.skip("users of parts take Redis 7")
    lines = [grants.line(name, rules, PASSWORD) for name, rules in grants.USERS.items()]
    lines.append(grants.line(OF_HOST, grants.USERS[grants.PROBE], PASSWORD, tag=TAG, host=HOST))
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(contextlib.closing(Connection(one))) for one in shards.addresses]
        for connection in connections:
            for line in lines:
                connection.call("ACL", "SETUSER", *_words(line))
        yield shards
        for connection in connections:
            connection.call("ACL", "DELUSER", *grants.USERS, OF_HOST)


def _words(line: str) -> list[str]:
    """The rules of a line of a file of users; a selector is one of them."""
    first, *rest = line.removeprefix("user ").replace(" (", "\n(").replace(") ", ")\n").split("\n")
    return [*first.split(), *rest]
