"""A shard whose memory limit is turned below what it uses: everybody who is asked says that it is full."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from acquisition.shards.topology.nodes import Members
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.values import states
from acquisition.status import health
from acquisition.status.document import Verdict, verdict_of
from acquisition.status.finding import STALE
from filters.prometheus.pipeline import FINDINGS, families
from filters.worker.loop.worker import Worker
from tests.support.data_center import Guest, Machine, run, smoothing
from tests.support.waiting import eventually

ROOM = 128 << 20


class Scene:
    """One shard with two hosts, and who looks at it."""

    def __init__(self, shards: Shards, cluster: Cluster, worker: Worker) -> None:
        self.shards, self.cluster, self.worker = shards, cluster, worker
        self.machines = [Machine(cluster, name, [Guest(f"{name}-vm", 1.0, 4)]) for name in ("one", "two")]
        self.tick = run(worker, self.machines)

    def limit(self, bytes_: int) -> None:
        connection = self.cluster.connect(self.shards.addresses[0])
        connection.call("CONFIG", "SET", "maxmemory", bytes_)
        connection.close()

    def findings(self) -> health.Health:
        with Members(self.shards.addresses, None, 2.0) as members:
            return health.read(self.cluster, members, {})


@pytest.fixture
def scene(start_cluster: Callable[..., Shards]) -> Iterator[Scene]:
    shards = start_cluster(1)
    cluster = shards.connect()
    with smoothing(cluster) as worker:
        yield Scene(shards, cluster, worker)
    cluster.close()


def test_status_and_readers_say_that_a_shard_is_full(scene: Scene) -> None:
    scene.limit(1 << 20)
    found = scene.findings()
    (told,) = (each for each in found.findings if "is out of memory" in each.text)
    assert (told.kind, told.about) == (STALE, f"shard {scene.shards.addresses[0]}")
    assert verdict_of(found) is not Verdict.OK
    stale = dict(dict(families(found, {}, {}))[FINDINGS])['kind="stale"']
    assert stale >= 1
    with SnapshotReader(scene.cluster.another(), clock=lambda: scene.tick + 4.6) as reader:
        snapshot = reader.coherent()
    assert {(block.state, block.cause) for block in snapshot.blocks} == {(states.UNKNOWN, states.FULL)}
    assert states.CAUSES[states.FULL] in snapshot.blind
    scene.limit(ROOM)
    assert not any("is out of memory" in each.text for each in scene.findings().findings)


def test_who_has_room_again_is_seen_again(scene: Scene) -> None:
    scene.limit(1 << 20)
    scene.limit(ROOM)
    for machine in scene.machines:
        machine.send(scene.tick + 1.5)
    with SnapshotReader(scene.cluster.another(), clock=lambda: scene.tick + 2.6) as reader:
        eventually(
            lambda: {block.state for block in reader.coherent().blocks} == {states.CURRENT},
            meanwhile=lambda: scene.worker.turn(0.02),
        )
