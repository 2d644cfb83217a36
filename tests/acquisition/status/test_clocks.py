"""An NTP step, or a clock that is a day off, where somebody reads: he is told that it is his clock."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from acquisition.link.cluster import Cluster
from acquisition.shards.launch import Shards
from acquisition.shards.nodes import Members
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.states import CURRENT, DOWN
from acquisition.status import health
from acquisition.status.finding import STALE
from tests.support.scene import Scene

DAY = 86400.0
HOSTS = ("web-1", "web-2")


def stepped(seconds: float) -> Callable[[], float]:
    return lambda: time.time() + seconds


@pytest.mark.parametrize(("step", "word"), [(60.0, "ahead of"), (DAY, "ahead of"), (-60.0, "behind"), (-DAY, "behind")])
def test_a_reader_whose_clock_is_stepped_calls_nobody_down(
    shards: Shards, cluster: Cluster, step: float, word: str
) -> None:
    scene = Scene(cluster)
    clock = [0.0]
    with SnapshotReader(shards.connect(), clock=lambda: time.time() + clock[0]) as reader:
        for host in HOSTS:
            scene.host(host, range(int(time.time()) - 2, int(time.time()) + 1))
        reader.coherent()
        clock[0] = step
        snapshot = reader.coherent()
        assert not {block.state for block in snapshot.blocks} & {CURRENT, DOWN}
        told = re.search(r"the clock of this reader is (\d+) s (ahead of|behind) those of the shards", snapshot.blind)
        assert told is not None, snapshot.blind
        assert (told[2], float(told[1])) == (word, pytest.approx(abs(step), abs=30.0))
        clock[0] = 0.0
        for host in HOSTS:
            scene.host(host, range(int(time.time()) - 2, int(time.time()) + 120))
        assert {block.state for block in reader.latest().blocks} == {CURRENT}


@pytest.mark.parametrize(("step", "word"), [(DAY, "ahead of"), (-DAY, "behind")])
def test_status_says_whose_clock_is_off(shards: Shards, cluster: Cluster, step: float, word: str) -> None:
    with Members(shards.addresses, None, 2.0) as members:
        told = [each for each in health.read(cluster, members, {}, wall=stepped(step)).findings if "clock" in each.text]
        assert [each.kind for each in told] == [STALE] * len(shards.addresses)
        assert all(f"s {word} it" in each.text for each in told)
        assert not any("clock" in each.text for each in health.read(cluster, members, {}).findings)
