"""A shard that hangs holds nothing up but its own partitions, and nobody takes what still works."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from acquisition.link.layouts import read_layout
from acquisition.shards.servers.launch import Shards
from filters.worker.loop.assembly import leasing_worker
from filters.worker.loop.leases import new_holder
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import turn_until
from tests.support.feeder import Feeder
from tests.support.series import applied_sequence, assert_equals_model, feed
from tests.support.waiting import PATIENCE


@pytest.mark.few
def test_the_other_shards_go_on_while_one_hangs(start_cluster: Callable[..., Shards]) -> None:
    running = start_cluster(2, directives={"cluster-node-timeout": "60000"})  # two masters alone call it down soon
    cluster = running.connect()
    layout = read_layout(cluster)
    frozen, living = Feeder(cluster, host=0), Feeder(cluster, host=layout.partitions - 1)
    worker, leases, *_ = leasing_worker(cluster, layout, FilterSettings(), new_holder(1.0), lambda _: None)

    def until(done: Callable[[], bool], seconds: float) -> None:
        turn_until(worker, done, seconds, leases.turn)

    feed(frozen, 1, 3)
    feed(living, 1, 3)
    until(lambda: applied_sequence(cluster, frozen) == applied_sequence(cluster, living) == 3, PATIENCE)
    feed(frozen, 4, 4)
    os.kill(running.pids[0], signal.SIGSTOP)
    began, tick, slowest = time.monotonic(), 3, 0.0
    while time.monotonic() - began < 5.0:  # longer than any timeout: it has been given up and tried again
        tick += 1
        feed(living, tick, tick)
        pushed = time.monotonic()
        until(lambda: applied_sequence(cluster, living) == tick, 2.0)  # noqa: B023
        slowest = max(slowest, time.monotonic() - pushed)
    assert slowest < 0.5
    os.kill(running.pids[0], signal.SIGCONT)
    until(lambda: applied_sequence(cluster, frozen) == 4, PATIENCE)
    feed(frozen, 5, 6)
    until(lambda: applied_sequence(cluster, frozen) == 6, PATIENCE)
    assert_equals_model(cluster, frozen, 6)
    assert_equals_model(cluster, living, tick)
    until(lambda: len(worker.partitions) == layout.partitions, PATIENCE)
    worker.close()
    leases.leave()
    cluster.close()
