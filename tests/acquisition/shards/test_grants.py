"""Users of each part (acquisition.shards.grants): nobody can do more than its work, which test_tls.py has them do."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import pytest

from acquisition.link.resp import Connection, packed
from acquisition.shards import grants
from acquisition.shards.launch import Shards
from acquisition.wire import keys
from filters.worker import oom_commit
from tests.support import granted as support
from tests.support.forbidden import FORBIDDEN, refused

TAG, OTHER, *_ = keys.tags(keys.DEFAULT_PARTITIONS)
STRANGE = support.HOST
#: Of the commands that give away, change or end a server, those that a user's work needs.
_NEEDED = {
    grants.OPERATOR: (
        "CONFIG SET", "CLUSTER", "CLIENT LIST", "MIGRATE", "RESTORE", "ACL LIST",
    ),
    grants.KEEPER: ("CONFIG SET", "ACL SETUSER", "ACL GETUSER", "CLIENT KILL"),
    grants.REPLICATION: ("PSYNC", "REPLCONF"),
}  # fmt: skip
#: Which data a user may not touch, ``{}`` for a partition.
_WRITES = [
    "SET {} x", "XTRIM {} MAXLEN 0", "DEL {}", "XADD {} * f x", "HSET {} a b", "EXPIRE {} 1", "ZADD {} 1 x",
    "HDEL {} a",
    "EVAL return(redis.call('del',KEYS[1])) 1 {}", "EVALSHA x 1 {}", "UNLINK {}", "GETDEL {}", "APPEND {} x",
]  # fmt: skip
_READS = ["GET {}", "HGETALL {}", "XRANGE {} - +", "XREAD STREAMS {} 0", "GETRANGE {} 0 1", "ZRANGE {} 0 -1", "DUMP {}"]
_PARTITION = [
    f"{name}:{{{{tag}}}}"
    for name in ("raw", "commit", "applied", "rejected", "refused", "lease", "readers", "told", "layout")
]
_RECORDS = [f"{name}:{{{{tag}}}}:{STRANGE}:00000001:0" for name in ("smoothed", "recent", "names")]
_EVERYWHERE = [*_PARTITION, *_RECORDS, keys.MIGRATIONS, "something"]


def beyond(user: str) -> list[str]:
    """What a user must be refused: the server, and all data that is not for it."""
    server = [command for command in FORBIDDEN if not command.startswith(_NEEDED.get(user, ("?",)))]
    data = [
        command.replace("{}", key.replace("{{tag}}", f"{{{TAG}}}"))
        for command, key in itertools.product((*_READS, *_WRITES), _EVERYWHERE)
        if not allowed(user, command.split()[0].lower(), key)
    ]
    return [*server, *data]


def allowed(user: str, command: str, key: str) -> bool:
    """By hand, and not by the table that is tested: what the work of a user is."""
    name = key.partition(":{")[0]
    if user == grants.PROBE:
        reads = {"get", "xrange"} if name in ("commit", "applied", "rejected", "layout") else set()
        return command in reads | ({"xadd"} if name == "raw" else set())
    if user in (grants.REPLICATION, grants.KEEPER):
        return False
    reading = {"get", "hgetall", "xrange", "getrange", "zrange"}
    if user in (grants.READER, grants.OBSERVER):
        return command in reading
    if user == grants.SERVE:
        tells = {"hset", "hdel", "xadd", "eval"} if name == "told" else {"xadd"} if name == keys.MIGRATIONS else set()
        return command in reading | tells
    if user == grants.ARCHIVE:
        tells = {"hset", "hdel", "xadd", "eval"} if name == "told" else {"hset"} if name == "readers" else set()
        return command in reading | {"xread"} | tells
    if user == grants.OPERATOR:
        return command in {"get", "set", "hgetall", "xtrim"}
    if name in ("raw", "commit", "applied", "rejected", "refused", "lease", "smoothed", "recent", "names", "readers"):
        return command in reading - {"xrange"} | {
            "xread", "set", "xtrim", "del", "xadd", "hset", "hdel", "expire", "zadd", "eval", "evalsha",
        }  # fmt: skip
    return name == "layout" and command in {"get", "set"}


@pytest.fixture(scope="module")
def granted(shards: Shards) -> Iterator[Shards]:
    """The session's shards with all users, as long as this module runs."""
    with support.granted(shards):
        yield shards


@pytest.mark.parametrize("user", grants.USERS)
def test_no_user_may_do_more_than_its_work(granted: Shards, user: str) -> None:
    commands = beyond(user)
    assert len(commands) >= 30
    with contextlib.closing(Connection(granted.addresses[0], support.user(user))) as connection:
        replies = connection.pipeline([tuple(command.split()) for command in commands])
    done = [f"{command}: {reply!r}" for command, reply in zip(commands, replies, strict=True) if not refused(reply)]
    assert not done


def test_a_filter_can_commit_on_a_shard_that_is_full(granted: Shards) -> None:
    commands = oom_commit.script(TAG, b"another", b"0-0", packed(("SET", keys.commit(TAG), "x")))
    with contextlib.closing(Connection(granted.addresses[0], support.user(grants.FILTER))) as connection:
        connection.send(commands)
        assert connection.receive_many(2) == [b"OK", None]


def test_the_probe_of_a_host_reaches_no_other_partition_and_no_other_status(granted: Shards) -> None:
    names = (keys.raw, keys.commit, keys.applied, keys.rejected)
    elsewhere = [command.format(name(OTHER)) for command in (*_READS, *_WRITES) for name in names]
    host = int(STRANGE, 16)
    elsewhere += [f"SET {keys.status(OTHER, host)} x EX 5", f"SET {keys.status(TAG, host + 1)} x EX 5"]
    own = [("GET", keys.commit(TAG)), ("XADD", keys.raw(TAG), "1-1", "f", "x"), ("SET", keys.status(TAG, host), "x")]
    with contextlib.closing(Connection(granted.addresses[0], support.user(support.OF_HOST))) as connection:
        replies = connection.pipeline([tuple(command.split()) for command in elsewhere])
        assert [reply for reply in replies if not refused(reply)] == []
        assert not any(refused(reply) for reply in connection.pipeline(own))
