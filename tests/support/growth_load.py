"""Growth load: writers and a filter while the cluster changes under them."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.local_shards import LocalShards
from acquisition.model.metric import GAUGE, Metric, resource_set_id, schema_hash
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.writer import Writer
from acquisition.snapshot.reader import SnapshotReader
from acquisition.snapshot.values.block import Block
from acquisition.wire import keys, position
from acquisition.wire.frame import Samples
from acquisition.wire.layout import Layout
from acquisition.wire.position import Position
from acquisition.wire.table import Entity, Table
from experiments.harness.scalar_model import Observation, State, run
from tests.support.applied import position_of

METRICS = (Metric("cpu_ratio", "ratio", GAUGE, 0.0, 1.0, "load"), Metric("memory_bytes", "bytes", GAUGE, 0.0, 1e15, ""))
SET = resource_set_id("host")
TAU = 5.0
_NEVER = 3600.0  #: seconds: what probes shed while a machine is busy is counted as lost, and not what is looked at
FILTER = """
import sys
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.local_shards import LocalShards
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
cluster = Cluster(LocalShards(sys.argv[1]))
lone_worker(cluster, read_layout(cluster), FilterSettings()).run(lambda: False)
"""


class Load:
    """``hosts`` writers that offer a frame every ``interval`` seconds, in a thread; the filter in a process."""

    def __init__(self, directory: Path, hosts: int = 32, interval: float = 0.1) -> None:
        self.seeds = LocalShards(str(directory))
        self.cluster = Cluster(self.seeds, timeout=1.0)
        self.layout: Layout = read_layout(self.cluster)
        self.interval = interval
        self.hosts = range(1, hosts + 1)
        self.writers = {
            host: Writer(host, f"h{host}", self.seeds, None, Outbox(None), position_interval=0.5, shed_after=_NEVER)
            for host in self.hosts
        }
        self.seen: dict[int, list[tuple[Observation, Observation]]] = {host: [] for host in self.hosts}
        self.worst = 0.0  #: the longest that a frame was not yet applied, in seconds
        self._offered: dict[int, list[tuple[int, float]]] = {host: [] for host in self.hosts}
        self._paused = False
        self._stopped = False
        self._random = random.Random(7)
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._watch)]
        self._filter = subprocess.Popen([sys.executable, "-c", FILTER, str(directory)])
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stopped = True
        for thread in self._threads:
            thread.join()
        self._filter.kill()
        self._filter.wait()
        for writer in self.writers.values():
            writer.close()
        self.cluster.close()

    @property
    def filtering(self) -> bool:
        """Whether the filter worker lives."""
        return self._filter.poll() is None

    def wait(self, done: Callable[[], bool], seconds: float = 40.0) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, {
                h: (w.problem, w.account()["unsent_frames"]) for h, w in self.writers.items()
            }
            time.sleep(0.05)

    def flowing(self) -> None:
        """Wait until every host has been applied."""
        self.wait(lambda: all(self.position(host) is not None for host in self.hosts))
        self.worst = 0.0

    def settle(self) -> None:
        """Make no more and wait until all is applied."""
        self._paused = True
        time.sleep(2 * self.interval)
        self.wait(lambda: all(self._is_applied(host) for host in self.hosts))

    def assert_whole(self) -> None:
        """Everything made was applied once, nothing lost, and the averages are those of the scalar model."""
        self.settle()
        for host in self.hosts:
            found = self.position(host)
            window = self.writers[host]._outbox.windows[SET]
            assert found is not None
            assert (found.lost, found.before + found.applied) == (0, window.made), (host, found)
        blocks = {block.host_id: block for block in SnapshotReader(self.cluster).latest().blocks}
        for host in self.hosts:
            for column in range(2):
                expected = run([row[column] for row in self.seen[host]], TAU)
                self._compare(blocks[host], column, expected)

    @staticmethod
    def _compare(block: Block, column: int, expected: State) -> None:
        for name in ("mean", "variance", "trend"):
            found, wanted = float(block.plane(name)[0, column]), getattr(expected, name)
            assert abs(found - wanted) <= 1e-5 * abs(wanted) + 1e-6, (block.host_id, name, found, wanted)

    def position(self, host: int) -> Position | None:
        with suppress(ShardpulseError):
            return position_of(self.cluster, host, SET)
        return None

    def _is_applied(self, host: int) -> bool:
        found = self.position(host)
        return found is not None and found.sequence == self.writers[host]._outbox.windows[SET].last

    def _offer(self, host: int) -> None:
        writer, now, wall = self.writers[host], time.monotonic(), time.time()
        if writer.wants_table(SET):
            entity = Entity(host, "host", f"h{host}", "boot", f"h{host}")
            writer.offer_table(Table(f"h{host}", "host", 1.0, "test", True, METRICS, (entity,)), int(wall), wall, now)
        values = struct.pack("<2f", self._random.random(), self._random.random())
        first, second = struct.unpack("<2f", values)
        sequence = writer.offer(
            Samples(SET, schema_hash(METRICS), 1, 2, 1.0, int(wall), wall, now, struct.pack("<Q", host), values)
        )
        self.seen[host].append((Observation(now, first, 0), Observation(now, second, 0)))
        self._offered[host].append((sequence, now))

    def _write(self) -> None:
        due = {host: time.monotonic() + self.interval * host / len(self.hosts) for host in self.hosts}
        while not self._stopped:
            now = time.monotonic()
            for host, writer in self.writers.items():
                if now >= due[host] and not self._paused:
                    due[host] += self.interval
                    self._offer(host)
                writer.service(now)
            time.sleep(0.002)

    def _watch(self) -> None:
        """The age of the oldest frame of each host that is not applied yet, again and again."""
        watched = Cluster(self.seeds, timeout=1.0)
        while not self._stopped:
            asked = [(host, keys.applied(self.layout.tag_of(host))) for host in self.hosts]
            with suppress(ShardpulseError):
                replies = watched.gather([(key, ("HGET", key, keys.member(host, SET))) for host, key in asked])
                self._judge([reply if isinstance(reply, bytes) else None for reply in replies])
            time.sleep(0.02)
        watched.close()

    def _judge(self, replies: list[bytes | None]) -> None:
        now = time.monotonic()
        for host, data in zip(self.hosts, replies, strict=True):
            waiting = self._offered[host]
            applied = position.decode(data).sequence if data else 0
            while waiting and waiting[0][0] <= applied:
                waiting.pop(0)
            if waiting:
                self.worst = max(self.worst, now - waiting[0][1])


@contextmanager
def loaded(directory: Path, hosts: int = 32, interval: float = 0.1) -> Iterator[Load]:
    load = Load(directory, hosts, interval)
    try:
        load.flowing()
        yield load
    finally:
        load.close()


def command(directory: Path, *arguments: str) -> list[str]:
    """`shardpulse shards …` on the shards in ``directory``."""
    return [sys.executable, "-m", "acquisition", "shards", *arguments, "--dir", str(directory)]
