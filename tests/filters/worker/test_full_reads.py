"""A partition of which a read brought as much as it might is read again at once: the rest waits already."""

from __future__ import annotations

import select
from contextlib import closing
from typing import Any

import numpy as np

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Connection
from filters.worker.loop.channel import Channel
from filters.worker.partitions.partition import Partition
from filters.worker.partitions.settings import FilterSettings
from tests.support.feeder import Feeder
from tests.support.waiting import PATIENCE, eventually

LONG = 100.0


def read(channel: Channel) -> list[Any]:
    """The entries of the read that was asked for."""
    found = eventually(lambda: _receive(channel)) or []
    channel.partition.take(found)
    return found


def _receive(channel: Channel) -> list[Any] | None:
    return channel.receive() if select.select([channel.fileno()], [], [], PATIENCE)[0] else None


def test_it_lingers_once_nothing_is_left(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    feeder = Feeder(cluster, host=7)
    number = layout.tags.index(feeder.tag)
    for tick in range(600):
        feeder.push(feeder.make(np.ones((1, 1)), float(tick)))
    partition = Partition(number, feeder.tag, layout.partitions, FilterSettings())
    with closing(Connection(cluster.owner(partition.raw_key))) as connection:
        channel = Channel(partition)
        channel.adopt(partition, connection)
        channel.read()
        first = read(channel)
        channel.commit(0.0, LONG)
        assert channel.due is None
        rest = read(channel)
        assert len(first) + len(rest) == 600
        channel.commit(0.0, LONG)
        assert channel.due is not None


def test_who_then_falls_silent_has_nothing_more(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    feeder = Feeder(cluster, host=7)
    for tick in range(512):
        feeder.push(feeder.make(np.ones((1, 1)), float(tick)))
    partition = Partition(layout.tags.index(feeder.tag), feeder.tag, layout.partitions, FilterSettings())
    with closing(Connection(cluster.owner(partition.raw_key))) as connection:
        channel = Channel(partition)
        channel.adopt(partition, connection)
        channel.read()
        assert len(read(channel)) == 512
        assert partition.has_more
        channel.commit(0.0, LONG)
        eventually(lambda: _receive(channel) == [])  # after the second for which a read waits
        assert not partition.has_more
