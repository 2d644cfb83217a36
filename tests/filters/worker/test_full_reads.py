"""A partition of which a read brought as much as it might is read again at once: the rest waits already."""

from __future__ import annotations

import select
from contextlib import closing
from typing import Any

import numpy as np

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Connection
from acquisition.wire import keys
from filters.worker.loop.channel import Channel
from filters.worker.partitions.partition import Partition
from filters.worker.partitions.settings import FilterSettings
from tests.support.feeder import Feeder
from tests.support.waiting import PATIENCE, eventually

LONG = 100.0


def read(channel: Channel) -> int:
    """How many entries the read that was asked for has brought: they are committed."""
    found = eventually(lambda: _receive(channel)) or []
    with channel.partition.batch(found) as batch:
        channel.commit(batch, 0.0, LONG)
    return len(found)


def _receive(channel: Channel) -> list[Any] | None:
    return channel.receive() if select.select([channel.fileno()], [], [], PATIENCE)[0] else None


def test_it_lingers_once_nothing_is_left(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    feeder = Feeder(cluster, host=7)
    number = layout.tags.index(feeder.tag)
    for tick in range(600):
        feeder.push(feeder.make(np.ones((1, 1)), float(tick)))
    partition = Partition(number, feeder.tag, layout.partitions, FilterSettings())
    with closing(Connection(cluster.owner(keys.raw(partition.tag)))) as connection:
        channel = Channel(partition)
        channel.adopt(partition, connection)
        channel.read()
        first = read(channel)
        assert channel.due is None
        rest = read(channel)
        assert first + rest == 600
        assert channel.due is not None


def test_who_then_falls_silent_has_nothing_more(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    feeder = Feeder(cluster, host=7)
    for tick in range(512):
        feeder.push(feeder.make(np.ones((1, 1)), float(tick)))
    partition = Partition(layout.tags.index(feeder.tag), feeder.tag, layout.partitions, FilterSettings())
    with closing(Connection(cluster.owner(keys.raw(partition.tag)))) as connection:
        channel = Channel(partition)
        channel.adopt(partition, connection)
        channel.read()
        assert read(channel) == 512
        assert partition.stream.has_more
        eventually(lambda: _receive(channel) == [])  # after the second for which a read waits
        assert not partition.stream.has_more
