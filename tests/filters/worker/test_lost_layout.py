"""The layout has copies on every shard: when one comes back empty, the filter stores them there again."""

from __future__ import annotations

import pytest

from acquisition.errors import ConfigError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.wire import keys
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from tests.support import layouts
from tests.support.waiting import eventually


def test_a_layout_that_was_lost_with_its_shard_is_stored_again(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    layouts.forget(cluster)
    with pytest.raises(ConfigError, match="no shardpulse layout"):
        read_layout(cluster)
    worker = lone_worker(cluster, layout, FilterSettings())
    try:
        eventually(
            lambda: all(cluster.call(copy, "GET", copy) for copy in keys.layouts()),
            meanwhile=lambda: worker.turn(0.05),
            says=lambda: "the layout stays lost",
        )
    finally:
        worker.close()
    found = read_layout(cluster)
    assert (found.partitions, found.keep_ticks) == (layout.partitions, layout.keep_ticks)
