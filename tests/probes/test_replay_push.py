"""A replay into real shards, through the real filter, is what a snapshot reads."""

import math
import socket
import time
from pathlib import Path

import pytest

from acquisition.errors import UnavailableError
from acquisition.link.cluster import Cluster, read_layout
from acquisition.shards.launch import Shards
from acquisition.snapshot import SnapshotReader
from filters.settings import FilterSettings
from filters.worker import Worker
from probes import replay_command

FIXTURES = Path(__file__).parents[1] / "fixtures"


def push(shards: Shards, tool: str, path: str, *options: str) -> int:
    addresses = ",".join(f"{address.host}:{address.port}" for address in shards.addresses)
    return replay_command.main([tool, str(FIXTURES / tool / path), "--push", "--shards", addresses, *options])


def smoothed(cluster: Cluster, frames: int) -> SnapshotReader:
    """Turn a filter until it has applied so many frames, tables included."""
    worker = Worker(cluster, read_layout(cluster), FilterSettings(linger_seconds=0.0))
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
