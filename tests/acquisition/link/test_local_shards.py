"""This machine's shards are found by their state file, which is believed only when nobody else can have written it."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import EXIT_CANNOT_CREATE, EXIT_CONFIG, ConfigError, ShardError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.local_shards import STATE_FILE, Found, LocalShards
from acquisition.link.resp import Address
from acquisition.shards.topology.nodes import Members
from acquisition.snapshot import SnapshotReader
from tests.support.fixture_types import StartCluster

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state file that may be believed."""
    path = tmp_path / STATE_FILE
    path.write_text(json.dumps({"instance": "abc", "shards": [{"host": "127.0.0.1", "port": 7600}]}))
    path.chmod(0o600)
    tmp_path.chmod(0o700)
    return path


def test_it_tells_where_they_listen(state: Path) -> None:
    assert LocalShards(str(state.parent)).look() == Found("abc", (Address("127.0.0.1", 7600),))


def test_without_a_file_there_are_none(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ShardError, match="shardpulse shards up"):
            LocalShards(str(place)).look()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"instance": "a", "shards": [{"host": "x"}]}', "\udcff"])
def test_a_damaged_file_is_named(text: str, state: Path) -> None:
    state.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match="cannot read"):
        LocalShards(str(state.parent)).look()


@pytest.mark.parametrize("which", ["file", "directory"])
def test_what_others_may_write_is_not_believed(which: str, state: Path) -> None:
    (state if which == "file" else state.parent).chmod(0o722)
    with pytest.raises(ConfigError, match="writable by other users"):
        LocalShards(str(state.parent)).look()


@root
@pytest.mark.parametrize("which", ["file", "directory"])
def test_what_another_user_owns_is_not_believed(which: str, state: Path) -> None:
    os.chown(state if which == "file" else state.parent, 12345, 12345)
    with pytest.raises(ConfigError, match=r"another user \(uid 12345\)"):
        LocalShards(str(state.parent)).look()


def test_a_link_to_a_file_elsewhere_is_not_followed(state: Path, tmp_path: Path) -> None:
    state.rename(tmp_path / "elsewhere.json")
    state.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ConfigError, match="cannot read"):
        LocalShards(str(state.parent)).look()


def test_a_pipe_in_its_place_keeps_nobody_waiting(state: Path) -> None:
    state.unlink()
    os.mkfifo(state, 0o600)
    with pytest.raises(ConfigError, match="cannot read"):
        LocalShards(str(state.parent)).look()


@root
@pytest.mark.parametrize("command", ["status", "down", "up", "balance"])
def test_commands_on_shards_believe_another_users_state_as_little(
    command: str, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    state.write_text(json.dumps(_foreign_state(victim)))
    os.chown(state.parent, 12345, 12345)
    assert shardpulse(["shards", command, "--dir", str(state.parent)]) in (EXIT_CONFIG, EXIT_CANNOT_CREATE)
    assert "another user (uid 12345)" in capsys.readouterr().err
    assert victim.is_dir()


def _foreign_state(directory: Path) -> dict[str, object]:
    """What would make `down` end a process that is none of its own and remove a directory of its victim."""
    shard = {"host": "127.0.0.1", "port": 7600, "pid": 999999, "started": 1, "core": 0, "directory": str(directory)}
    redis = {"path": "/usr/bin/redis-server", "version": "7.0.15", "source": "given"}
    layout = {"partitions": 64, "keep_ticks": 3, "record_format": 3}
    return {"instance": "abc", "redis": redis, "layout": layout, "shards": [shard], "intent": None, "secured": False}


def test_a_cluster_of_local_shards_is_found_again_at_other_ports(start_cluster: StartCluster) -> None:
    first = start_cluster(2)
    seeds = LocalShards(str(first.directory))
    cluster, members = Cluster(seeds), Members(seeds)
    assert read_layout(cluster).partitions == first.layout.partitions
    assert {node.address for node in members.look()} == {*first.addresses}
    reader = SnapshotReader(cluster)
    assert "no samples yet" in str(reader.coherent().errors)
    ports = {address.port for address in first.addresses}
    first.stop()
    for _ in range(2):
        with pytest.raises(ShardError, match="no shards are running on this machine"):
            reader.coherent()
    with pytest.raises(ShardError, match="no shards are running on this machine"):
        members.look()

    second = start_cluster(1, partitions=8)
    assert not ports & {address.port for address in second.addresses}
    second.directory.rename(first.directory)
    assert "no samples yet" in str(reader.coherent().errors)
    assert cluster.masters() == second.addresses
    assert read_layout(cluster).partitions == 8  # the layout is the new one's
    assert [node.address for node in members.look()] == second.addresses
    members.close()
    reader.close()


def test_a_stranger_at_a_port_of_before_is_not_asked(start_cluster: StartCluster) -> None:
    shards = start_cluster(1)
    seeds = LocalShards(str(shards.directory))
    cluster = Cluster(seeds)
    address = cluster.masters()[0]
    shards.stop()
    with pytest.raises(ShardError, match="closed the connection"):
        cluster.call("key", "GET", "key")
    with socket.create_server(address) as stranger:
        stranger.settimeout(0.2)
        with pytest.raises(ShardError, match="no shards are running"):
            cluster.call("key", "GET", "key")
        with pytest.raises(ShardError, match="no shards are running"):
            cluster.connect(address)
        with pytest.raises(TimeoutError):
            stranger.accept()


def test_python_finds_them_as_the_commands_do(
    start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shards = start_cluster(1)
    config = tmp_path / "shardpulse.toml"
    config.write_text(f'[shards]\ndirectory = "{shards.directory}"\n')
    monkeypatch.setenv("SHARDPULSE_CONFIG", str(config))
    with SnapshotReader.connect() as reader:
        assert not reader.coherent().blocks
        assert reader.cluster.masters() == shards.addresses
    with SnapshotReader.connect([str(shards.addresses[0])]) as reader:
        assert not reader.coherent().blocks
