"""Users of each part: nobody can do more than its work, which test_tls.py has them do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from acquisition.hosts import forgetting
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Connection, packed
from acquisition.shards.servers import grants
from acquisition.shards.servers.launch import Shards
from acquisition.wire import keys, position
from acquisition.wire.layout import Layout
from acquisition.wire.position import Position
from filters.worker.partitions.partition import script
from tests.support import granted as support
from tests.support.beyond import READS, WRITES, beyond
from tests.support.forbidden import refused

TAG, OTHER, *_ = keys.tags(keys.DEFAULT_PARTITIONS)


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
    commands = script(TAG, b"another", b"0-0", packed(("SET", keys.commit(TAG), "x")))
    with contextlib.closing(Connection(granted.addresses[0], support.user(grants.FILTER))) as connection:
        connection.send(commands)
        assert connection.receive_many(2) == [b"OK", None]


def test_an_operator_can_forget_a_host(granted: Shards) -> None:
    host, layout = len(keys.tags(keys.DEFAULT_PARTITIONS)), Layout()  # of the first partition
    applied, data = keys.applied(TAG), position.encode(Position(1, 1, 1, 1.0, 1.0))
    with contextlib.closing(granted.connect()) as cluster:
        cluster.call(applied, "HSET", applied, keys.member(host, 1), data)
    with contextlib.closing(Cluster(granted.addresses, support.user(grants.OPERATOR))) as cluster:
        assert [one.state for one in forgetting.read(cluster, layout, 10.0) if one.host == host] == [forgetting.SILENT]
        forgetting.forget(cluster, layout, host)
        assert host not in [one.host for one in forgetting.read(cluster, layout, 10.0)]


def test_host_probe_reaches_only_its_partition_and_status(granted: Shards) -> None:
    names = (keys.raw, keys.commit, keys.applied, keys.rejected)
    elsewhere = [command.format(name(OTHER)) for command in (*READS, *WRITES) for name in names]
    host = int(support.HOST, 16)
    elsewhere += [f"SET {keys.status(OTHER, host)} x EX 5", f"SET {keys.status(TAG, host + 1)} x EX 5"]
    own = [("GET", keys.commit(TAG)), ("XADD", keys.raw(TAG), "1-1", "f", "x"), ("SET", keys.status(TAG, host), "x")]
    with contextlib.closing(Connection(granted.addresses[0], support.user(support.OF_HOST))) as connection:
        replies = connection.pipeline([tuple(command.split()) for command in elsewhere])
        assert [reply for reply in replies if not refused(reply)] == []
        assert not any(refused(reply) for reply in connection.pipeline(own))


def test_a_filter_of_before_0_1_0_goes_on_beside_these_users(granted: Shards) -> None:
    """An upgrade brings users to all shards before it comes to the filters."""
    slots = [f"hosts:{{{TAG}}}:{slot}" for slot in range(keys.DEFAULT_KEEP_TICKS)]
    commands = [
        ("XLEN", f"hosts:{{{TAG}}}:changes"), ("GET", f"sought:{{{TAG}}}"), ("MULTI",), ("DEL", *slots),
        ("SET", slots[0], "x", "EX", "1"), ("XADD", f"hosts:{{{TAG}}}:changes", "MAXLEN", "32", "*", "before", ""),
        ("EXPIRE", f"hosts:{{{TAG}}}:changes", "1"), ("DEL", f"hosts:{{{TAG}}}:changes", *slots), ("EXEC",),
    ]  # fmt: skip
    with contextlib.closing(Connection(granted.addresses[0], support.user(grants.FILTER))) as connection:
        assert not any(refused(reply) for reply in connection.pipeline(commands))
    with contextlib.closing(Connection(granted.addresses[0], support.user(grants.READER))) as connection:
        assert refused(connection.pipeline([("SET", f"sought:{{{TAG}}}", "1")])[0])
