"""The shard map: calls that follow slots, layouts, shards that are gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

import pytest

from acquisition.errors import ConfigError, ShardError, ShardpulseError, TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout, write_layout
from acquisition.link.resp import Address, ReplyError
from acquisition.outbox.link.sender import Sender
from acquisition.shards.servers.launch import Shards
from acquisition.wire import keys, layout
from acquisition.wire.layout import Layout
from tests.support import layouts
from tests.support.fixture_types import StartCluster
from tests.support.waiting import eventually


def test_replies_come_in_the_order_of_the_commands(cluster: Cluster) -> None:
    names = [f"key{number}" for number in range(200)]
    assert len({cluster.owner(name) for name in names}) == 2
    cluster.gather([(name, ("SET", name, name.upper())) for name in names])
    replies = cluster.gather([(name, ("GET", name)) for name in names])
    assert replies == [name.upper().encode() for name in names]


def test_errors_are_values_of_gather_and_raised_by_call(cluster: Cluster) -> None:
    cluster.call("text", "SET", "text", "x")
    good, bad = cluster.gather([("text", ("GET", "text")), ("text", ("LPOP", "text"))])
    assert good == b"x"
    assert isinstance(bad, ReplyError)
    with pytest.raises(ShardError, match="WRONGTYPE"):
        cluster.call("text", "LPOP", "text")


def test_masters_are_in_slot_order(cluster: Cluster, shards: Shards) -> None:
    assert cluster.masters() == shards.addresses
    assert cluster.owner(keys.raw(keys.tags(2)[0])) == shards.addresses[0]
    assert cluster.owner(keys.raw(keys.tags(2)[1])) == shards.addresses[1]


def test_moved_slot_is_followed(start_cluster: Callable[..., Shards]) -> None:
    shards = start_cluster(2)
    cluster = shards.connect()
    name = "wanderer"
    cluster.call(name, "SET", name, "here")
    slot = keys.slot_of(name)
    owner = cluster.owner(name)
    other = next(address for address in shards.addresses if address != owner)
    source, target = cluster.connect(owner), cluster.connect(other)
    ids = [connection.call("CLUSTER", "MYID") for connection in (source, target)]
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
    source.call("MIGRATE", other.host, other.port, name, 0, 5000)
    assert cluster.call(name, "GET", name) == b"here"  # ASK is followed
    assert cluster.owner(name) == owner
    target.call("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
    source.call("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
    assert cluster.call(name, "GET", name) == b"here"  # MOVED is followed
    assert cluster.owner(name) == other
    for connection in (source, target, cluster):
        connection.close()


def test_shard_that_is_gone_fails_its_own_commands_only(start_cluster: Callable[..., Shards]) -> None:
    shards = start_cluster(2)
    cluster = shards.connect()
    names = [f"key{number}" for number in range(20)]
    owners = [cluster.owner(name) for name in names]
    os.kill(shards.pids[0], signal.SIGKILL)
    for reply, owner in zip(cluster.gather([(name, ("GET", name)) for name in names]), owners, strict=True):
        assert isinstance(reply, ShardError) == (owner == shards.addresses[0])
    name = names[owners.index(shards.addresses[0])]
    with pytest.raises(ShardError, match="is unreachable"):
        cluster.call(name, "GET", name)
    cluster.close()


def test_no_seed_answers() -> None:
    cluster = Cluster([Address("127.0.0.1", 1)], timeout=0.2)
    with pytest.raises(ShardError, match="no shard answers"):
        cluster.masters()


def test_slot_without_owner(start_cluster: Callable[..., Shards]) -> None:
    shards = start_cluster(1)
    cluster = shards.connect()
    connection = cluster.connect(shards.addresses[0])
    connection.call("CLUSTER", "DELSLOTS", keys.slot_of("orphan"))
    with pytest.raises(TemporaryError, match=r"no shard owns slot|CLUSTERDOWN"):
        cluster.call("orphan", "GET", "orphan")
    connection.close()
    cluster.close()


def test_layout_is_never_changed(cluster: Cluster) -> None:
    write_layout(cluster, 7)
    layout = read_layout(cluster)
    assert layout.partitions == keys.DEFAULT_PARTITIONS
    assert layout.tag_of(keys.DEFAULT_PARTITIONS + 3) == layout.tags[3]
    assert Layout(3).tags == keys.tags(3)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "shards up"),
        ("", "damaged"),
        ("[]", "damaged"),
        ('{"format": 1}', "damaged"),
        ('{"format": 1, "partitions": 0}', "damaged"),
        ('{"format": 1, "partitions": "many"}', "damaged"),
        ('{"format": 2, "partitions": 64}', "format 2"),
    ],
)
def test_layouts_that_cannot_be_used(cluster: Cluster, value: str | None, message: str) -> None:
    if value is None:
        layouts.forget(cluster)
    else:
        layouts.put(cluster, value)
    with pytest.raises(ConfigError, match=message) as caught:
        read_layout(cluster)
    layouts.forget(cluster)  # a layout is never overwritten, by no later test either
    assert isinstance(caught.value, ShardpulseError)


def test_the_newest_of_sound_copies_of_the_layout_counts(cluster: Cluster) -> None:
    """A shard was dead while the record format was raised, and a copy is damaged."""
    newest = read_layout(cluster)
    first, second, *_ = keys.layouts()
    cluster.call(first, "SET", first, "damaged")
    cluster.call(second, "SET", second, layout.encode(newest._replace(record_format=newest.record_format - 1)))
    assert read_layout(cluster) == newest
    layouts.forget(cluster)


def test_the_layout_is_read_while_any_one_shard_is_dead(start_cluster: StartCluster) -> None:
    shards = start_cluster(3)
    with contextlib.closing(shards.connect()) as cluster:
        whole = read_layout(cluster)
    for shard in shards.shards:
        os.kill(shard.pid, signal.SIGKILL)
        eventually(lambda shard=shard: not shard.alive)  # type: ignore[misc]
        others = [one.address for one in shards.shards if one != shard]
        with contextlib.closing(Cluster(others)) as cluster:
            assert read_layout(cluster) == whole
        sender = Sender(1, others, None, 20.0)
        with contextlib.closing(sender):
            eventually(lambda sender=sender: sender.advance(time.monotonic()) or sender.tag)  # type: ignore[misc]
        shards.revive()
