"""The map of slots is read until it has been read: nothing else may come that doubts it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from acquisition.link.layouts import read_layout
from acquisition.link.resp import Connection
from acquisition.log import TroubleLog
from acquisition.shards.servers.launch import Shards
from filters.runtime.background_jobs import BackgroundJobs
from filters.worker.loop.shard_map import ShardMap
from tests.support.waiting import PATIENCE, eventually


def test_a_map_that_could_not_be_read_is_read_again(start_cluster: Callable[..., Shards]) -> None:
    """Its own connection ended, and every partition has found its shard again before the map was asked for."""
    (address,) = (running := start_cluster(1)).addresses
    cluster = running.connect()
    log, background = TroubleLog(lambda _: None), BackgroundJobs()
    with contextlib.closing(Connection(address)) as connection, contextlib.closing(background):
        shard_map = ShardMap(cluster, read_layout(cluster), background, log)
        shard_map.doubt()
        eventually(lambda: shard_map.where(0) == address, PATIENCE, meanwhile=background.deliver)
        connection.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        known = shard_map.places

        def look() -> None:
            shard_map.look()
            background.deliver()

        shard_map.doubt()
        eventually(lambda: log.trouble, PATIENCE, meanwhile=look)
        connection.call("CONFIG", "SET", "cluster-announce-ip", "127.0.0.2")

        eventually(lambda: shard_map.places is not known, PATIENCE, meanwhile=look)
        assert shard_map.where(0) == ("127.0.0.2", address.port)
        shard_map.close()
    cluster.close()
