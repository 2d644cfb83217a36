"""Workers as processes on real shards share the partitions: joining, leaving, dying, sleeping."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.snapshot.visibility.workers import Workers, read_workers
from acquisition.wire import keys
from tests.support.feeder import Feeder
from tests.support.series import applied_sequence, assert_equals_model, feed
from tests.support.waiting import PATIENCE

PARTITIONS = keys.DEFAULT_PARTITIONS
Ownership = dict[int, frozenset[int]]
LONG = 4.0  #: a lease that a worker keeps however busy the machine is


class Team:
    """Filter processes, and what the shards say about them."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.layout = read_layout(cluster)
        self.directory = directory
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, lease_seconds: float = 2.0) -> subprocess.Popen[str]:
        config = self.directory / f"filter-{len(self.processes)}.toml"
        config.write_text(f"[filter]\nlease_seconds = {lease_seconds}\n")
        shards = ",".join(str(address) for address in self.cluster.masters())
        command = [sys.executable, "-m", "acquisition", "filter", "--config", str(config), "--shards", shards]
        self.processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True))
        return self.processes[-1]

    def read(self) -> Workers:
        return read_workers(self.cluster, self.layout)

    def owned(self) -> Ownership:
        """Partitions by process id."""
        return {int(worker.name.rpartition(":")[2]): frozenset(worker.partitions) for worker in self.read().workers}

    def until(self, done: Callable[[Ownership], bool], seconds: float) -> tuple[Ownership, float]:
        """Wait for a distribution; answers it and how many seconds it took."""
        began = time.monotonic()
        while not done(owned := self.owned()):
            assert time.monotonic() - began < seconds, {pid: len(held) for pid, held in owned.items()}
            time.sleep(0.02)
        return owned, time.monotonic() - began

    def balanced(self, *processes: subprocess.Popen[str]) -> Callable[[Ownership], bool]:
        """Whether these and no others have all partitions, in even shares."""

        def check(owned: Ownership) -> bool:
            counts = [len(held) for held in owned.values()]
            return (
                owned.keys() == {process.pid for process in processes}
                and sum(counts) == PARTITIONS
                and max(counts) - min(counts) <= 1
            )

        return check


@pytest.fixture
def team(cluster: Cluster, tmp_path: Path) -> Iterator[Team]:
    team = Team(cluster, tmp_path)
    yield team
    for process in team.processes:
        process.kill()
        process.wait()


class Stream:
    """Pushes one frame after another in a thread of its own connections, for several hosts."""

    def __init__(self, cluster: Cluster, hosts: range, every: float = 0.05) -> None:
        self.cluster = cluster.another()
        self.feeders = [Feeder(self.cluster, host=host) for host in hosts]
        self.tick = 0
        self._every = every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self.cluster.close()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            self.tick += 1
            for feeder in self.feeders:
                feed(feeder, self.tick, self.tick)


def finished(cluster: Cluster, stream: Stream, seconds: float = PATIENCE) -> None:
    """Everything that was pushed is applied, and its state is what the scalar model says."""
    deadline = time.monotonic() + seconds
    for feeder in stream.feeders:
        while applied_sequence(cluster, feeder) != stream.tick:
            assert time.monotonic() < deadline, (feeder.host, applied_sequence(cluster, feeder), stream.tick)
            time.sleep(0.02)
        assert_equals_model(cluster, feeder, stream.tick)


@pytest.mark.few
def test_joining_and_leaving_rebalances_and_moves_only_what_must_move(team: Team) -> None:
    one = team.start(LONG)
    team.until(team.balanced(one), PATIENCE)
    with Stream(team.cluster, range(8)) as stream:
        two = team.start(LONG)
        first, _ = team.until(team.balanced(one, two), PATIENCE)
        three = team.start(LONG)
        second, _ = team.until(team.balanced(one, two, three), PATIENCE)
        for pid in (one.pid, two.pid):
            assert second[pid] < first[pid], "who has to give takes nothing"
        two.terminate()
        assert two.wait(PATIENCE) == 0
        third, seconds = team.until(team.balanced(one, three), PATIENCE)
        assert seconds < 1.0, "a clean stop gives its leases back"
        assert third[one.pid] > second[one.pid]
        assert third[three.pid] > second[three.pid]
    finished(team.cluster, stream)


@pytest.mark.few
def test_a_killed_worker_is_replaced_within_three_seconds(team: Team) -> None:
    one, two = team.start(), team.start()
    team.until(team.balanced(one, two), PATIENCE)
    with Stream(team.cluster, range(8)) as stream:
        time.sleep(0.5)
        killed = time.monotonic()
        one.kill()
        _, seconds = team.until(team.balanced(two), PATIENCE)
        assert seconds <= 3.0
        pushed = stream.tick
        while any(applied_sequence(team.cluster, feeder) < pushed for feeder in stream.feeders):
            assert time.monotonic() - killed < 3.5, "it owns, and does not work"
            time.sleep(0.02)
    finished(team.cluster, stream)


def test_a_worker_that_slept_writes_nothing_stale_when_it_wakes(team: Team) -> None:
    one, two = team.start(0.8), team.start(0.8)
    team.until(team.balanced(one, two), PATIENCE)
    with Stream(team.cluster, range(8)) as stream:
        time.sleep(0.3)
        os.kill(one.pid, signal.SIGSTOP)  # in the middle of its work, entries wait in its sockets
        team.until(team.balanced(two), PATIENCE)
        time.sleep(1.0)
        os.kill(one.pid, signal.SIGCONT)
        team.until(team.balanced(one, two), PATIENCE)
    finished(team.cluster, stream)
