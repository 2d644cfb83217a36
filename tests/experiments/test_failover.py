"""Masters with replicas in network namespaces: killed, partitioned, empty again; and nothing is lost.

One cluster for all of these tests, with the product's writers and ``shardpulse filter`` on it. At the end of
each, the books balance and the smoothed state of every host equals the scalar model.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.errors import TemporaryError
from acquisition.link.layouts import write_layout
from acquisition.shards.servers import grants
from acquisition.shards.topology.nodes import Members
from acquisition.wire import keys, position
from experiments import testbed
from experiments.emulation.emulated_host import EmulatedHost
from experiments.emulation.workload import Workload
from experiments.failover import storms
from experiments.failover.generators import fitting
from experiments.failover.load import POSITION_SECONDS
from experiments.failover.pipeline import Pipeline
from experiments.testbed import Node, ReplicatedCluster, Testbed
from tests.support.waiting import PATIENCE

WORKLOAD = Workload(hosts=18, entities=4, metrics=5, interval=0.1, seed=20, churn_per_hour=0.0)

LACK = testbed.missing_for_shards()
pytestmark = pytest.mark.skipif(bool(LACK), reason=f"FAILOVER IS NOT TESTED HERE: {LACK}")


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    with Testbed(hosts=3) as made:
        yield made


@pytest.fixture(scope="module")
def running(bed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    with testbed.start_cluster(bed, tmp_path_factory.mktemp("nodes"), masters=3, replicas=1) as cluster:
        yield cluster


@pytest.fixture
def shards(bed: Testbed, running: ReplicatedCluster) -> ReplicatedCluster:
    """The cluster whole again, and empty but for its layout."""
    bed.heal()
    for node in running.nodes:
        running.revive(node)
    running.fail_back()
    for node in running.masters():
        node.call("FLUSHALL")
    connected = running.connect(user=grants.OPERATOR)
    write_layout(connected, keys.DEFAULT_PARTITIONS)
    connected.close()
    return running


@pytest.fixture
def pipeline(shards: ReplicatedCluster, tmp_path: Path) -> Iterator[Pipeline]:
    with Pipeline(shards, tmp_path, WORKLOAD) as made:
        yield made


def replica_of(shards: ReplicatedCluster, master: Node) -> Node:
    (replica,) = shards.replicas_of(master)
    return replica


def hosts_on(pipeline: Pipeline, master: Node) -> list[EmulatedHost]:
    chosen = set(pipeline.hosts_of(master))
    assert chosen, "the workload has no host on this master: choose more hosts"
    return [host for host in pipeline.load.hosts if host.index in chosen]


def wait_for_new_frames(pipeline: Pipeline, hosts: list[EmulatedHost], count: int, seconds: float) -> None:
    """Until ``count`` frames that are made from now on are known to be applied, of each of these hosts."""
    goals = [(host.window, host.window.last + count) for host in hosts]
    pipeline.load.run_until(lambda: all(w.applied >= goal for w, goal in goals), seconds, "new frames are applied")


def applied_on(node: Node, pipeline: Pipeline, host: EmulatedHost) -> int:
    """The newest frame of a host that a node itself holds as applied, replica or not."""
    key = keys.applied(pipeline.layout.tag_of(host.number))
    connection = node.connect()
    connection.call("READONLY")
    found = connection.call("HGET", key, keys.member(host.number, host.window.resource_set))
    connection.close()
    return position.decode(found).sequence


@pytest.mark.few
def test_after_kill_9_of_a_master_writes_flow_again(pipeline: Pipeline, shards: ReplicatedCluster) -> None:
    pipeline.start_filter()
    load = pipeline.start_load()
    master = shards.masters()[0]
    replica = replica_of(shards, master)
    hosts = hosts_on(pipeline, master)
    wait_for_new_frames(pipeline, hosts, 3, 5.0)
    shards.kill(master)
    killed = time.monotonic()
    goals = [(host.window, host.window.last + 1) for host in hosts]
    flowing: list[float] = []

    def flows() -> bool:
        if not flowing and any(window.acked >= goal for window, goal in goals):
            flowing.append(time.monotonic() - killed)
        return bool(flowing)

    def meanwhile() -> None:
        load.turn(0.02)
        flows()

    shards.revive(master, meanwhile=meanwhile)  # not before its replica has taken over: it comes back empty
    load.run_until(flows, 5.0, "a write is accepted")
    assert flowing[0] < 15.0  # experiments.failover says how soon; here others may have the cores
    assert replica in shards.masters()
    assert master in shards.replicas_of(replica)
    wait_for_new_frames(pipeline, hosts, 1, 5.0)
    assert pipeline.problems() == []


def test_lagging_replica_takes_over_and_probes_resend_the_rest(pipeline: Pipeline, shards: ReplicatedCluster) -> None:
    """The master dies between apply and replication: probes were told of frames that nobody holds any more."""
    pipeline.start_filter()
    load = pipeline.start_load()
    master = shards.masters()[0]
    replica = replica_of(shards, master)
    hosts = hosts_on(pipeline, master)
    with replica.host.link.block(master.address):  # of the replication nothing arrives; the nodes still hear each other
        wait_for_new_frames(pipeline, hosts, 5, 5.0)
        told = [host.window.applied for host in hosts]
        shards.kill(master)
        behind = [told_of - applied_on(replica, pipeline, host) for host, told_of in zip(hosts, told, strict=True)]
        assert min(behind) >= 4
        load.run_until(lambda: replica in shards.masters(), 10.0, "the replica takes over")
    shards.revive(master, meanwhile=lambda: load.run_for(0.02))
    wait_for_new_frames(pipeline, hosts, 1, 10.0)
    for host, missing in zip(hosts, behind, strict=True):
        assert host.window.counts.resent >= missing
    assert pipeline.problems() == []
    assert master in shards.replicas_of(replica)


def test_frames_taken_by_minority_master_are_resent(pipeline: Pipeline, shards: ReplicatedCluster) -> None:
    """The master's host is cut off, with probes and a filter on it, which go on there for a while."""
    master = shards.masters()[0]
    replica = replica_of(shards, master)
    inside = pipeline.hosts_of(master)
    pipeline.start_filter(master.host)
    load = pipeline.start_load(places=dict.fromkeys(inside, master.host))
    hosts = hosts_on(pipeline, master)
    others = [host for host in load.hosts if host not in hosts]
    with master.host.link.cut():
        pipeline.start_filter()
        wait_for_new_frames(pipeline, hosts, 5, 2.0)  # the minority still works, and tells its probes so
        load.run_until(lambda: replica in shards.masters(), 10.0, "the replica takes over")
        wait_for_new_frames(pipeline, others, 5, 10.0)  # whom the cut does not concern are smoothed on this side
        told = [host.window.applied for host in hosts]
        assert all(told_of > applied_on(replica, pipeline, host) for host, told_of in zip(hosts, told, strict=True))
    wait_for_new_frames(pipeline, load.hosts, 1, 10.0)
    assert pipeline.problems() == []
    assert all(host.window.counts.resent for host in hosts)
    shards.wait_healthy()
    assert master in shards.replicas_of(replica)
    assert not [node for node in shards.nodes if Path(node.shard.directory, "dump.rdb").exists()]


@pytest.mark.parametrize("how", [(), ("TAKEOVER",)], ids=["planned", "without a vote"])
def test_a_master_that_lives_is_replaced_and_its_clients_follow(
    pipeline: Pipeline, shards: ReplicatedCluster, how: tuple[str, ...]
) -> None:
    """What maintenance does: connections to the old master stay open, and it answers MOVED from then on.

    TAKEOVER does not wait for the replica to have everything: what was acknowledged meanwhile is sent again.
    """
    pipeline.start_filter()
    load = pipeline.start_load()
    master = shards.masters()[0]
    replica = replica_of(shards, master)
    hosts = hosts_on(pipeline, master)
    wait_for_new_frames(pipeline, hosts, 3, 5.0)
    replica.call("CLUSTER", "FAILOVER", *how)
    load.run_until(lambda: replica in shards.masters(), 10.0, "the replica takes over")
    wait_for_new_frames(pipeline, load.hosts, 3, 10.0)
    assert pipeline.problems() == []
    assert master in shards.replicas_of(replica)


def test_empty_shard_without_replica_is_refilled_from_outboxes(pipeline: Pipeline, shards: ReplicatedCluster) -> None:
    pipeline.start_filter()
    load = pipeline.start_load()
    master = shards.masters()[0]
    hosts = hosts_on(pipeline, master)
    wait_for_new_frames(pipeline, load.hosts, 5, 5.0)
    shards.kill(replica_of(shards, master))
    shards.kill(master)
    shards.revive(master, meanwhile=lambda: load.run_for(0.02))
    assert master in shards.masters()
    wait_for_new_frames(pipeline, load.hosts, 1, 10.0)
    assert all(host.window.counts.resent >= 5 for host in hosts)
    assert pipeline.problems() == []


def test_hosts_whose_shard_hangs_up_are_back_and_lose_nothing(
    shards: ReplicatedCluster, pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two processes emulate them, as for all storms here: what they say is joined."""
    pipeline.start_filter()
    pipeline.prepare_generators(2, POSITION_SECONDS)
    cold = storms.measured("cold start", pipeline, shards.nodes, None)
    assert cold.hosts == WORKLOAD.hosts
    assert cold.connections >= WORKLOAD.hosts
    assert {"generator 0", "generator 1", "filter", "others"} <= set(cold.cpu)
    assert {node.name for node in shards.nodes} <= set(cold.cpu)
    master = shards.masters()[0]
    orphans = pipeline.hosts_of(master)
    storm = storms.measured("connections ended", pipeline, shards.nodes, orphans, lambda: storms.hang_up(master))
    assert storm.hosts == len(orphans)
    assert storm.connections >= len(orphans)
    assert storm.errors["closed"] >= len(orphans)
    told = capsys.readouterr().err
    assert f"connections ended: {len(orphans)} hosts send after" in told
    assert "CPU seconds: generator 0 " in told
    full_seconds = 2.0 * WORKLOAD.interval
    full = storms.measured("full shard", pipeline, shards.nodes, orphans, lambda: storms.fill(master, full_seconds))
    assert full.errors["oom"] >= 1
    assert pipeline.problems() == []
    assert set(pipeline.generators.logs()) == set(range(WORKLOAD.hosts))


def test_hosts_reconnect_after_password_change_without_loss(shards: ReplicatedCluster, pipeline: Pipeline) -> None:
    pipeline.start_filter()
    pipeline.prepare_generators(2, POSITION_SECONDS).watch(None, PATIENCE, "all hosts send")
    with Members(shards.addresses, shards.access.credentials(grants.KEEPER), PATIENCE) as members:
        storms.begin_rotation(pipeline, members)
        storm = storms.measured(
            "passwords exchanged", pipeline, shards.nodes, None, lambda: storms.finish_rotation(pipeline, members)
        )
    assert storm.hosts == WORKLOAD.hosts
    assert storm.connections >= WORKLOAD.hosts
    assert storm.errors["closed"] >= WORKLOAD.hosts
    assert "wrongpass" not in storm.errors
    assert pipeline.problems() == []


def test_generators_say_what_has_not_happened_in_time_and_go_on(shards: ReplicatedCluster, pipeline: Pipeline) -> None:
    pipeline.start_filter()
    generators = pipeline.prepare_generators(2, POSITION_SECONDS)
    with pytest.raises(TemporaryError, match=r"generator 0: not within 0 s: all send.*generator 1: not within"):
        generators.watch(None, 0.0, "all send")
    generators.watch(None, PATIENCE, "all send")
    assert pipeline.problems() == []


@pytest.mark.parametrize(("hosts", "most"), [(1, 1), (2000, 1), (10_000, 5)])
def test_one_generator_per_two_thousand_hosts_up_to_cores(hosts: int, most: int) -> None:
    assert fitting(hosts) == min(most, len(os.sched_getaffinity(0)))
