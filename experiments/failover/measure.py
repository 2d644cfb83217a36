"""Measurement of one failover: kill -9 of a master until all flows again.

Its replica is in sync.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from acquisition.errors import ShardpulseError
from acquisition.snapshot import SnapshotReader
from experiments.emulation.emulated_host import EmulatedHost
from experiments.emulation.workload import Workload
from experiments.failover.pipeline import Pipeline
from experiments.testbed import Node, ReplicatedCluster

_LOOK = 0.01
_LONGEST = 30.0
_BEFORE_SECONDS = 1.5
_AFTER_SECONDS = 1.0


class Failover(NamedTuple):
    """Seconds since the kill: until the replica owned the slots, until a probe of the killed shard had a write accepted
    (the first probe, and the last), and until a value sampled after the kill was readable for a host of that shard (the
    first, and the last). ``resent`` frames, ``problems`` at the end."""

    promoted: float
    first_write: float
    last_write: float
    first_readable: float
    last_readable: float
    resent: int
    problems: list[str]


class Watch:
    """A thread that notes when each of several conditions became true for the first time."""

    def __init__(self, look: Callable[[], set[str]]) -> None:
        self.at: dict[str, float] = {}
        self._look = look
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stopped = True
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped:
            with contextlib.suppress(ShardpulseError):  # a shard that is being replaced
                for name in self._look():
                    self.at.setdefault(name, time.monotonic())
            time.sleep(_LOOK)


def measure(shards: ReplicatedCluster, directory: Path, workload: Workload, number: int) -> Failover:
    """Kill the master ``number`` of a healthy cluster with nothing but the layout in its shards. Raises ShardpulseError
    if it does not recover within half a minute.
    """
    with SnapshotReader(shards.connect(timeout=1.0)) as reader, Pipeline(shards, directory, workload) as pipeline:
        pipeline.start_filter()
        load = pipeline.start_load()
        master = shards.masters()[number % len(shards.masters())]
        replica = shards.replicas_of(master)[0]
        chosen = set(pipeline.hosts_of(master))
        hosts = [host for host in load.hosts if host.index in chosen]
        load.run_for(_BEFORE_SECONDS)
        windows = [host.window for host in hosts]
        shards.kill(master)
        killed, wall = time.monotonic(), time.time()
        goals = [window.last + 1 for window in windows]
        watches = [Watch(lambda: _promoted(replica)), Watch(_readable(reader, {host.number for host in hosts}, wall))]
        accepted: list[float] = []
        try:
            for done in (any, all):
                load.run_until(
                    lambda done=done: done(w.acked >= goal for w, goal in zip(windows, goals, strict=True)),  # type: ignore[misc]
                    _LONGEST,
                    "writes are accepted",
                )
                accepted.append(time.monotonic())
            load.run_until(lambda: len(watches[1].at) == len(hosts), _LONGEST, "values are readable")
            load.run_for(_AFTER_SECONDS)
        finally:
            for watch in watches:
                watch.stop()
        problems = pipeline.problems()
        readable = watches[1].at.values()
        return Failover(
            watches[0].at["promoted"] - killed,
            accepted[0] - killed,
            accepted[1] - killed,
            min(readable) - killed,
            max(readable) - killed,
            _resent(hosts),
            problems,
        )


def _promoted(replica: Node) -> set[str]:
    return {"promoted"} if replica.view().myself.owns_slots else set()


def _readable(reader: SnapshotReader, hosts: set[int], since: float) -> Callable[[], set[str]]:
    """Hosts with a readable value sampled after ``since``."""

    def look() -> set[str]:
        blocks = reader.latest().blocks
        return {block.host for block in blocks if block.host_id in hosts and block.has_values and block.wall > since}

    return look


def _resent(hosts: list[EmulatedHost]) -> int:
    return sum(host.window.counts.resent for host in hosts)
