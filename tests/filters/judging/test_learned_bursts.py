"""Bursts that were learned, through real shards: shown by the command, kept when a partition moves, gone on request."""

from __future__ import annotations

import re
import time
from contextlib import closing

import pytest

from acquisition.cli import main as shardpulse
from acquisition.link.cluster import Cluster
from acquisition.link.local_shards import LocalShards
from acquisition.model.inputs import Bursts
from acquisition.shards.servers import local_growth
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import SnapshotReader
from filters.decisions.picture import CPU
from tests.support.data_center import Machine, flowing, run, smoothing
from tests.support.fixture_types import StartCluster


class Bursting(Machine):
    """A host with a burst of 4 s every 10 s, unless it is ``calm``."""

    calm = False

    def send(self, wall: float) -> None:
        self.busy = 0.95 if wall % 10.0 < 4.0 and not self.calm else 0.4
        super().send(wall)


def command(shards: Shards, *words: str) -> int:
    return shardpulse([*words, "--shards", ",".join(map(str, shards.addresses))])


def bursts(cluster: Cluster) -> Bursts:
    """What is known of the only host."""
    with SnapshotReader(cluster.another()) as reader:
        (table,) = reader.inputs(reader.latest()).values()
    found = table.inputs(0, CPU)
    assert found is not None
    assert found.bursts is not None
    return found.bursts


def test_the_command_shows_what_was_learned(
    shards: Shards, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with flowing(cluster, [Bursting(cluster, "web")]):
        assert command(shards, "query", "hot", "--explain", "web", "--grace", "0") == 0
    text = capsys.readouterr().out
    shown = dict(re.findall(r"^ +(.*) = (.*)$", text, re.MULTILINE))
    learned = ("longest burst", "highest burst", "period of bursts")
    assert [shown[name] for name in learned] == ["4 s", "95.0%", "10 s"], text
    assert int(shown["bursts in the last 3 hours"].removesuffix(" count")) >= 4
    assert 0 <= int(shown["next burst in"].removesuffix(" s")) <= 10


def test_forgetting_a_host_resets_its_bursts(shards: Shards, cluster: Cluster) -> None:
    web = Bursting(cluster, "web")
    with smoothing(cluster) as worker:
        run(worker, [web], ahead=-60)  # its probe was stopped a minute ago
        assert bursts(cluster).total >= 4
        assert command(shards, "hosts", "forget", "web") == 0
        web.calm = True
        web.restart(time.time())
        run(worker, [web], ticks=10)
    found = bursts(cluster)
    assert (found.total, found.longest_seconds, found.regular) == (0, 0.0, 0)


def test_a_partition_that_moves_keeps_the_bursts_of_its_hosts(start_cluster: StartCluster) -> None:
    shards = start_cluster(1)
    with closing(Cluster(LocalShards(str(shards.directory)))) as cluster, smoothing(cluster) as worker:
        web = Bursting(cluster, "web")
        run(worker, [web], ahead=-20)
        before = bursts(cluster)
        local_growth.add(shards, str)
        local_growth.remove(shards, "shard-0", str)  # all partitions are on the new shard now
        cluster.refresh()
        web.calm = True
        run(worker, [web], ticks=10)
        after = bursts(cluster)
    assert before.total >= 4
    assert before.total <= after.total <= before.total + 1  # one may have lasted when the host became calm
    assert (after.longest_seconds, after.height) == (4.0, before.height)
