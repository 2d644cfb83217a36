"""The layout lies on one shard: when that one comes back empty, the filter stores it there again."""

from __future__ import annotations

import pytest

from acquisition.errors import ConfigError
from acquisition.link.cluster import Cluster, read_layout
from acquisition.wire import keys
from filters.worker.assembly import lone_worker
from filters.worker.settings import FilterSettings
from tests.support.waiting import eventually


def test_a_layout_that_was_lost_with_its_shard_is_stored_again(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    cluster.call(keys.LAYOUT, "DEL", keys.LAYOUT)
    with pytest.raises(ConfigError, match="no shardpulse layout"):
        read_layout(cluster)
    worker = lone_worker(cluster, layout, FilterSettings())
    try:
        eventually(
            lambda: cluster.call(keys.LAYOUT, "GET", keys.LAYOUT) is not None,
            meanwhile=lambda: worker.turn(0.05),
            says=lambda: "the layout stays lost",
        )
    finally:
        worker.close()
    found = read_layout(cluster)
    assert (found.partitions, found.keep_ticks) == (layout.partitions, layout.keep_ticks)
