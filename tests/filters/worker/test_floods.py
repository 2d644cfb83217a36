"""A host that floods its partition is taken later, and whole; its neighbours are not kept waiting."""

from __future__ import annotations

import numpy as np

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.wire import keys
from filters.worker.loop.assembly import lone_worker
from filters.worker.loop.worker import Worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import position_of, turn_until
from tests.support.feeder import Feeder

HOST = 7
FLOOD = HOST + keys.DEFAULT_PARTITIONS  # of the same partition
FRAMES, ROUNDS = 20_000, 40


def started(cluster: Cluster) -> Worker:
    number = keys.partition_of(HOST, keys.DEFAULT_PARTITIONS)
    return lone_worker(cluster, read_layout(cluster), FilterSettings(), [number], report=lambda _: None)


def sequence(cluster: Cluster, feeder: Feeder) -> int:
    found = position_of(cluster, feeder.host, feeder.resource_set)
    return 0 if found is None else found.sequence


def flood(cluster: Cluster, heavy: Feeder, light: Feeder) -> None:
    """Frames of the one, and now and then one of the other; all of them are in the stream before a filter reads."""
    raw, values = keys.raw(heavy.tag), np.ones((1, 1))
    for _ in range(ROUNDS):
        some = [heavy.make(values, float(heavy.sequence + 1)) for _ in range(FRAMES // ROUNDS)]
        some.append(light.make(values, float(light.sequence + 1)))
        cluster.gather([(raw, ("XADD", raw, "*", "f", data)) for data in some])


def assert_whole(cluster: Cluster, feeder: Feeder) -> None:
    found = position_of(cluster, feeder.host, feeder.resource_set)
    assert found is not None
    assert (found.sequence, found.applied, found.lost, found.gaps) == (feeder.sequence, feeder.made, 0, 0)
    assert found.refused == 0


def test_neighbours_of_a_host_that_floods_are_not_kept_waiting(cluster: Cluster) -> None:
    heavy, light = Feeder(cluster, FLOOD), Feeder(cluster, HOST)
    flood(cluster, heavy, light)
    worker = started(cluster)
    turn_until(worker, lambda: sequence(cluster, light) == light.sequence)
    assert sequence(cluster, heavy) < 0.8 * heavy.sequence
    turn_until(worker, lambda: sequence(cluster, heavy) == heavy.sequence)
    for feeder in (heavy, light):
        assert_whole(cluster, feeder)
    light.push(light.make(np.ones((1, 1)), float(light.sequence + 1)))  # there is one reading again
    turn_until(worker, lambda: sequence(cluster, light) == light.sequence)
    worker.close()


def test_a_filter_that_takes_over_in_the_middle_goes_on(cluster: Cluster) -> None:
    heavy, light = Feeder(cluster, FLOOD), Feeder(cluster, HOST)
    flood(cluster, heavy, light)
    first = started(cluster)
    turn_until(first, lambda: sequence(cluster, light) > ROUNDS // 2)
    first.close()
    assert sequence(cluster, heavy) < heavy.sequence
    second = started(cluster)
    turn_until(second, lambda: sequence(cluster, heavy) == heavy.sequence)
    turn_until(second, lambda: sequence(cluster, light) == light.sequence)
    for feeder in (heavy, light):
        assert_whole(cluster, feeder)
    second.close()


def test_equally_busy_hosts_are_served_in_stream_order(cluster: Cluster) -> None:
    feeders = [Feeder(cluster, HOST + n * keys.DEFAULT_PARTITIONS) for n in range(3)]
    raw, values = keys.raw(feeders[0].tag), np.ones((1, 1))
    for tick in range(3000):
        cluster.gather([(raw, ("XADD", raw, "*", "f", one.make(values, float(tick + 1)))) for one in feeders])
    worker = started(cluster)
    channel = worker._channels[keys.partition_of(HOST, keys.DEFAULT_PARTITIONS)]

    def done() -> bool:
        assert not channel.partition.stream._lanes.front
        return sequence(cluster, feeders[-1]) == 3000

    turn_until(worker, done)
    worker.close()
