"""A batch of a partition is committed or discarded as a whole."""

from __future__ import annotations

import gc
import select
import weakref
from contextlib import closing

import numpy as np
import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Connection
from acquisition.wire import keys
from acquisition.wire.frame import KIND_SAMPLES, Frame, encode
from filters.worker.loop.channel import Channel, Overtaken
from filters.worker.partitions.partition import Partition
from filters.worker.partitions.settings import FilterSettings
from filters.worker.step.native import STEP
from tests.support.feeder import Feeder
from tests.support.waiting import PATIENCE, eventually


def empty() -> Partition:
    return Partition(0, "0", 1, FilterSettings(), STEP)


def test_pending_commands_are_committed_once() -> None:
    partition = empty()
    partition.also(b"*1\r\n$4\r\nPING\r\n")
    for expected in (4, 3):  # with the commit itself and both ends of the transaction
        with partition.batch([]) as batch:
            sent = partition.commit(batch)
        assert len(sent.pieces) == sent.replies == expected


def test_batch_leaves_no_reference_cycle() -> None:
    partition = empty()
    frame = Frame(KIND_SAMPLES, 1, 1, 1, 1, 1, 1.0, 7, 1, 1, 0, 1, 1.0, 1.0, bytes(8), bytes(4), b"")
    gc.collect()
    gc.disable()
    try:
        with partition.batch([[b"1-0", [b"f", encode(frame)]]]) as batch:
            assert len(batch.accepted) == 1
            partition.commit(batch)
        ended = weakref.ref(batch.rejections)
        del batch, partition
        assert ended() is None
    finally:
        gc.enable()


def test_partition_of_discarded_batch_is_refused(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    feeder = Feeder(cluster, host=7)
    partition = Partition(layout.tags.index(feeder.tag), feeder.tag, layout.partitions, FilterSettings(), STEP)
    with closing(Connection(cluster.owner(keys.raw(partition.tag)))) as connection:
        channel = Channel(partition)
        channel.adopt(partition, connection)
        feeder.push(feeder.make(np.ones((1, 1)), 1.0))
        channel.read()
        entries = eventually(lambda: received(channel)) or []
        with partition.batch(entries) as batch:
            assert len(batch.accepted) == 1
        channel.read()
        with pytest.raises(Overtaken):
            eventually(lambda: received(channel))


def received(channel: Channel) -> list[object] | None:
    return channel.receive() if select.select([channel.fileno()], [], [], PATIENCE)[0] else None
