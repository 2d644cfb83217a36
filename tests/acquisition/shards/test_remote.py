"""``shardpulse shards form --addresses``: servers that somebody else has started become one cluster."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Address, Connection
from acquisition.shards.servers import machine, redis_binary
from acquisition.shards.servers import process as shard_process
from tests.support.waiting import eventually


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Address]]:
    """Two empty servers of a cluster that nobody has formed."""
    redis, started, children = redis_binary.find(), [], []
    for number, port in enumerate(machine.free_ports(2)):
        address, home = Address("127.0.0.1", port), tmp_path / f"server-{number}"
        shard_process.configure(redis, address, machine.cores()[0], home, 64 << 20, {})
        shard, child = shard_process.launch(redis, address, machine.cores()[0], home, tied=True)
        started.append(shard)
        children.append(child)
    for shard in started:
        eventually(lambda shard=shard: answers(shard.address))  # type: ignore[misc]
    yield [shard.address for shard in started]
    shard_process.stop(started, children)


def answers(address: Address) -> bool:
    with contextlib.suppress(ShardpulseError), contextlib.closing(Connection(address)) as connection:
        return bool(connection.call("PING"))
    return False


def shards(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> Any:
    capsys.readouterr()
    assert shardpulse(["shards", *arguments]) == code
    return capsys.readouterr()


def test_a_master_and_its_replica(servers: list[Address], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    named = ["--addresses", ",".join(map(str, servers))]
    assert (
        "cannot be divided into masters with 2 replicas each"
        in shards(capsys, 2, "form", *named, "--replicas", "2").err
    )
    assert "cluster fail" in shards(capsys, 69, "status", *named).out
    for _ in range(2):  # the second time nothing is left to do
        told = shards(capsys, 0, "form", *named, "--replicas", "1", "--json").out
        rows = {row["address"]: row for row in json.loads(told)["shards"]}
        assert [rows[str(address)]["role"] for address in servers] == ["master", "replica"]
        assert rows[str(servers[1])]["in_sync"]
    with contextlib.closing(Cluster(servers)) as cluster:
        assert read_layout(cluster).partitions == 64
    assert f"replica of {servers[0]}, in sync" in shards(capsys, 0, "status", *named).out
    strange = ["--addresses", f"{servers[0]},127.0.0.1:{machine.free_ports(1)[0]}"]
    assert f"shard {servers[0]} is already a member of a cluster" in shards(capsys, 2, "form", *strange).err
    assert "balanced: 0 partitions" in shards(capsys, 0, "balance", *named).out
    assert "expected the server to add" in shards(capsys, 2, "add", *named).err
    assert "only with --addresses" in shards(capsys, 2, "add", str(servers[0])).err
    assert "invalid address 'nobody': expected HOST:PORT" in shards(capsys, 2, "drain", "nobody", *named).err
    assert "the last shard cannot be removed" in shards(capsys, 2, "drain", str(servers[0]), *named).err
    assert f"removed shard {servers[1]}: 0 partitions" in shards(capsys, 0, "remove", str(servers[1]), *named).out
    assert f"added shard {servers[1]}: 32 partitions" in shards(capsys, 0, "add", str(servers[1]), *named).out


def test_a_replica_takes_over_from_a_living_master(servers: list[Address], capsys: pytest.CaptureFixture[str]) -> None:
    master, replica = map(str, servers)
    named = ["--addresses", f"{master},{replica}"]
    shards(capsys, 0, "form", *named, "--replicas", "1")
    with contextlib.closing(Cluster(servers)) as cluster:
        cluster.call("key", "SET", "key", "kept")
    for leaving, heir in ((master, replica), (replica, master)):
        told = json.loads(shards(capsys, 0, "handover", leaving, "--to", heir, *named, "--json").out)
        assert (told["shard"], told["heir"], told["slots"]) == (leaving, heir, 16384)
        assert "owns no partitions; nothing" in shards(capsys, 0, "handover", leaving, *named).out
        with contextlib.closing(Cluster(servers)) as cluster:
            assert cluster.call("key", "GET", "key") == b"kept"
    wrong = f"127.0.0.1:{machine.free_ports(1)[0]}"
    assert (
        f"shard {wrong} does not answer or is unknown; shards are " in shards(capsys, 2, "handover", wrong, *named).err
    )
    assert f"{master} is not a replica of {master}" in shards(capsys, 2, "handover", master, "--to", master, *named).err
    assert "invalid address 'nobody': expected HOST:PORT" in shards(capsys, 2, "handover", "nobody", *named).err
    shards(capsys, 0, "remove", replica, *named)
    assert "has no replica that can take over" in shards(capsys, 69, "handover", master, *named).err
