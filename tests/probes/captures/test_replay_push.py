"""A replay into real shards, through the real filter, is what a snapshot reads."""

import math
import socket
import time
from collections.abc import Callable

import pytest

from acquisition.errors import EXIT_PERMISSION, EXIT_TEMPORARY, ShardpulseError, UnavailableError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout, write_layout
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.wire.keys import DEFAULT_PARTITIONS
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from probes import replay_command
from tests.support import FIXTURES


def push(shards: Shards, tool: str, path: str, *options: str) -> int:
    addresses = ",".join(f"{address.host}:{address.port}" for address in shards.addresses)
    return replay_command.main([tool, str(FIXTURES / tool / path), "--push", "--shards", addresses, *options])


def smoothed(cluster: Cluster, frames: int) -> SnapshotReader:
    """Turn a filter until it has applied so many frames, tables included."""
    worker = lone_worker(cluster, read_layout(cluster), FilterSettings(linger_seconds=0.0))
    reader = SnapshotReader(cluster)
    deadline = time.monotonic() + 20
    try:
        while reader.latest().totals.frames < frames:
            assert time.monotonic() < deadline
            worker.turn(0.05)
    finally:
        worker.close()
    return reader


def test_vmstat(shards: Shards, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert push(shards, "vmstat", "procps-4.0.2-wide-timestamp.txt", "--host", "alpha") == 0
    assert "pushed 4 frames, 72 samples of host 'alpha'" in capsys.readouterr().err
    snapshot = smoothed(cluster, 5).latest()
    assert snapshot.totals.lost == 0
    rows = {row.metric: row for row in snapshot.rows(host="alpha", resource_set="host")}
    assert len(rows) == 18
    assert rows["cpu_idle_ratio"].last == 0.0
    assert rows["memory_free_bytes"].last == pytest.approx(18347163648.0)
    assert rows["memory_free_bytes"].tick == 1795266425


def test_pidstat_keeps_codes(shards: Shards, cluster: Cluster) -> None:
    assert push(shards, "pidstat", "sysstat-12.6.1-no-permission.txt") == 0
    snapshot = smoothed(cluster, 4).latest()
    rows = {(row.entity, row.metric): row for row in snapshot.rows(host="replay:vm", resource_set="processes")}
    assert len(rows) == 3 * 16
    assert rows["dd", "disk_read_bytes_per_second"].validity == "MISSING"
    assert math.isclose(rows["dd", "cpu_ratio"].last, 0.12, rel_tol=1e-6)


def test_nothing_to_push(shards: Shards, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert push(shards, "vmstat", "hostile-header-without-rows.txt", "--strict") == 0
    assert "0 rows parsed" in capsys.readouterr().err


def test_shards_that_are_not_there() -> None:
    capture = str(FIXTURES / "vmstat" / "procps-4.0.2.txt")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and nobody listens
        shard = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(UnavailableError):
            replay_command.main(["vmstat", capture, "--push", "--patience", "0.5", "--shards", shard])


def refusal(shard: str, patience: float = 0.5) -> ShardpulseError:
    capture = str(FIXTURES / "vmstat" / "procps-4.0.2.txt")
    with pytest.raises(ShardpulseError) as caught:
        replay_command.main(["vmstat", capture, "--push", "--patience", str(patience), "--shards", shard])
    return caught.value


def test_a_shard_that_wants_a_password(start_cluster: Callable[..., Shards]) -> None:
    running = start_cluster(1)
    connected = running.connect()
    connection = connected.connect(running.addresses[0])
    connection.call("CONFIG", "SET", "requirepass", "secret")
    connection.close()
    connected.close()
    error = refusal(str(running.addresses[0]))
    assert error.exit_code == EXIT_PERMISSION
    assert "NOAUTH" in str(error)


def test_a_cluster_that_is_down(start_cluster: Callable[..., Shards]) -> None:
    running = start_cluster(1)
    connected = running.connect()
    connection = connected.connect(running.addresses[0])
    connection.call("CLUSTER", "DELSLOTS", *range(16384))  # 6.2 knows no ranges
    connection.close()
    connected.close()
    assert refusal(str(running.addresses[0])).exit_code == EXIT_TEMPORARY


def test_a_shard_whose_memory_is_full(start_cluster: Callable[..., Shards]) -> None:
    running = start_cluster(1)
    connected = running.connect()
    write_layout(connected, DEFAULT_PARTITIONS)
    connection = connected.connect(running.addresses[0])
    connection.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    connection.call("CONFIG", "SET", "maxmemory", "1mb")
    connection.close()
    connected.close()
    assert refusal(str(running.addresses[0])).exit_code == EXIT_TEMPORARY
