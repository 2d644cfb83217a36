"""Full shard, at its memory limit."""

from __future__ import annotations

import contextlib

import numpy as np

from acquisition.errors import TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.wire import keys
from tests.support.feeder import Feeder


def fill(cluster: Cluster, room: int) -> Feeder:
    """Leave ``room`` bytes, and push large frames until the only shard refuses one; who has pushed them."""
    with contextlib.closing(cluster.connect(cluster.masters()[0])) as admin:
        used = int(admin.call("INFO", "memory").partition(b"used_memory:")[2].partition(b"\r")[0])
        admin.call("CONFIG", "SET", "maxmemory", used + room)
    large = Feeder(cluster, host=7 + keys.DEFAULT_PARTITIONS)
    rng = np.random.default_rng(1)
    for tick in range(1, 1000):
        data = large.make(rng.random((400, 20)), float(tick))
        try:
            large.push(data)
        except TemporaryError:
            assert tick > 10
            return large
    raise AssertionError("the shard is never full")
