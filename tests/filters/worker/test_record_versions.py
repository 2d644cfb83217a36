"""Upgrades: old and new filters and readers on the same shards, records of both versions, no average restarts.

The new ones are processes of the next version (tests.support.next_version), the old ones of this version; both are the
commands that people run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from acquisition.errors import EXIT_CONFIG
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.snapshot.visibility.workers import read_workers
from acquisition.wire import keys, layout, position
from acquisition.wire.layout import Layout
from acquisition.wire.position import Position
from acquisition.wire.records import recent, record_format, smoothed
from acquisition.wire.records.record_format import NEWEST, Versions
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from tests.support import ROOT, layouts
from tests.support.feeder import Feeder
from tests.support.inputs_bench import METRICS, SCHEMA, VMS, names
from tests.support.series import applied_sequence
from tests.support.waiting import eventually

OLD, NEW = "acquisition", "tests.support.next_version"
NOW = record_format.versions(NEWEST)
NEXT = Versions(*(version + 1 for version in NOW))
HOSTS = range(1, 9)
CONFIG = """
[filter]
lease_seconds = 1.0
[filter.inputs]
window_seconds = 6
window_least = 6
counted_seconds = 3
counted_least = 3
thresholds = {"vms.cpu_ratio" = 0.5}
slacks = {"vms.cpu_ratio" = 0.1}
"""

#: Reads everything that filters write, and counts what it understands.
READER = """
import json, sys
from acquisition.snapshot import SnapshotReader
with SnapshotReader.connect(sys.argv[1].split(",")) as reader:
    snapshot = reader.latest()
    owners = [(block.host_id, block.set_id) for block in snapshot.blocks]
    found = reader.inputs(snapshot), reader.recent(owners)
print(json.dumps({
    "blocks": sum(block.has_values for block in snapshot.blocks),
    "inputs": sum(table.inputs(0, "cpu_ratio") is not None for table in found[0].values()),
    "recent": sum(len(table) > 0 for table in found[1].values()),
    "damaged": sum(bool(block.damage) for block in snapshot.blocks),
}))
"""


class Site:
    """Shards, their hosts, and the processes that work on them."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.shards = ",".join(map(str, cluster.masters()))
        self.config = directory / "shardpulse.toml"
        self.config.write_text(CONFIG)
        self.processes: list[subprocess.Popen[str]] = []
        self.feeders: dict[int, Feeder] = {}

    def command(self, program: str, name: str, *options: str) -> list[str]:
        return [sys.executable, "-m", program, name, "--config", str(self.config), *options, "--shards", self.shards]

    def filter(self, program: str) -> subprocess.Popen[str]:
        command = self.command(program, "filter")
        self.processes.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True))
        return self.processes[-1]

    def kill(self, *processes: subprocess.Popen[str]) -> None:
        for process in processes:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()

    def run(self, program: str, name: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = self.command(program, name, *options)
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    def upgrade(self) -> None:
        command = [sys.executable, "-m", NEW, "shards", "upgrade", "--json", "--shards", self.shards]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        assert json.loads(done.stdout) == {"record_format": NEWEST + 1, "before": NEWEST}

    def feed(self, hosts: Sequence[int], first: int, last: int, meanwhile: Callable[[], object] = lambda: None) -> None:
        """The same samples to every host, and wait until they are applied."""
        for host in hosts:
            if host not in self.feeders:
                self.feeders[host] = Feeder(self.cluster, host, VMS)
                self.feeders[host].push(self.feeders[host].table(names()))
            for tick in range(first, last + 1):
                values = np.random.default_rng(tick).random((3, len(METRICS)))
                self.feeders[host].push(self.feeders[host].make(values, float(tick), schema=SCHEMA))
        eventually(
            lambda: all(self.applied(host) == self.feeders[host].sequence for host in hosts), meanwhile=meanwhile
        )

    def applied(self, host: int) -> int:
        return applied_sequence(self.cluster, self.feeders[host])

    def records(self, host: int, tick: int) -> tuple[bytes, bytes]:
        """What lies in the shards of one tick: the smoothed record, and the ring of recent values."""
        tag, slot = self.feeders[host].tag, (1_000_000 + tick) % keys.DEFAULT_KEEP_TICKS
        key, ring = keys.smoothed(tag, host, VMS, slot), keys.recent(tag, host, VMS)
        first, second = self.cluster.gather([(key, ("GET", key)), (ring, ("GET", ring))])
        return first, second

    def versions(self, host: int, tick: int) -> Versions:
        """Those of the newest records of a host."""
        first, second = self.records(host, tick)
        return Versions(first[4], second[4])

    def figures(self, host: int, tick: int) -> tuple[bytes, list[bytes]]:
        """Everything that is known of a host's samples: decision inputs and planes, recent values."""
        first, second = self.records(host, tick)
        ring = recent.decode(second[:4] + bytes((NOW.recent,)) + second[5:])
        return first[smoothed.HEADER_SIZE :], [ring.rows[place]["raw"].tobytes() for place in ring.order()]

    def read(self, program: str) -> dict[str, int]:
        """What a reader finds: how many blocks with values, decision inputs, recent values, and how many damaged."""
        script = f"from {NEW} import raise_versions\nraise_versions()\n{READER}" if program == NEW else READER
        command = [sys.executable, "-c", script, self.shards]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        found: dict[str, int] = json.loads(done.stdout)
        return found


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    site = Site(cluster, tmp_path)
    yield site
    site.kill(*site.processes)


def holders(site: Site) -> set[str]:
    """The filters that smooth partitions now."""
    return {worker.id for worker in read_workers(site.cluster, Layout()).workers if worker.partitions}


def everything(hosts: Sequence[int]) -> dict[str, int]:
    """What a reader finds that understands all records."""
    return {"blocks": len(hosts), "inputs": len(hosts), "recent": len(hosts), "damaged": 0}


def test_upgrade_keeps_averages_and_mixed_versions_interoperate(site: Site) -> None:
    alone, early, late = HOSTS[0], HOSTS[1], HOSTS[2:]
    first = site.filter(OLD)
    site.feed([alone], 1, 16)  # what a filter that nobody replaces makes of these samples
    site.feed([early, *late], 1, 4)
    site.kill(first)

    newer = site.filter(NEW)  # restores from records of the version before, and writes that version
    site.feed(late, 5, 6)
    assert {site.versions(host, 6) for host in late} == {NOW}
    older = site.filter(OLD)  # both share the partitions
    eventually(lambda: len(holders(site)) == 2)
    site.feed(late, 7, 9)
    site.kill(newer)  # whatever it had made, the old one goes on with
    site.feed(late, 10, 12)
    assert {site.versions(host, 12) for host in late} == {NOW}
    assert site.read(OLD) == site.read(NEW) == everything(HOSTS)

    newer = site.filter(NEW)
    eventually(lambda: len(holders(site)) == 2)
    site.upgrade()
    older.wait(30)
    assert older.returncode == EXIT_CONFIG
    assert older.stderr is not None
    assert f"records of format {NEWEST + 1}" in older.stderr.read()
    assert newer.stderr is not None
    assert any("format" in line for line in newer.stderr)
    site.feed(late, 13, 16)
    assert {site.versions(host, 16) for host in late} == {NEXT}
    assert site.versions(early, 4) == NOW  # nobody has written them since
    assert site.read(NEW) == everything(HOSTS)
    for host in late:
        assert site.figures(host, 16) == site.figures(alone, 16)


def test_what_is_too_old_for_the_shards_says_so(site: Site) -> None:
    site.upgrade()
    for name in ("filter", "query"):
        refused = site.run(OLD, name, *(["--wait", "0"] if name == "filter" else ["--latest"]))
        assert refused.returncode == EXIT_CONFIG
        assert f"format {NEWEST + 1}" in refused.stderr
        assert "install a newer one here" in refused.stderr


def test_an_old_filter_leaves_records_alone_that_a_newer_one_wrote(site: Site) -> None:
    """The moments after an upgrade, when it has not looked at the layout again yet."""
    before = read_layout(site.cluster)
    site.upgrade()
    newer = site.filter(NEW)
    site.feed([1], 1, 3)
    site.kill(newer)
    written = site.records(1, 3)
    site.feeders[1].push(site.feeders[1].make(np.ones((3, len(METRICS))), 4.0, schema=SCHEMA))
    said: list[str] = []
    older = lone_worker(site.cluster, before, FilterSettings(), report=said.append)
    eventually(lambda: said, meanwhile=lambda: older.turn(0.05))
    older.close()
    assert any(f"version {NEXT.smoothed}" in text and "newer" not in text for text in said)
    assert site.records(1, 3) == written
    site.filter(NEW)
    site.feed([1], 5, 5)
    assert site.versions(1, 5) == NEXT


@pytest.mark.parametrize("name_key", [keys.applied, keys.dormant])
def test_a_position_that_a_newer_filter_wrote_is_left_alone(site: Site, name_key: Callable[[str], str]) -> None:
    """Taken for damage it would be written over, and what it had counted would be gone from the books."""
    feeder = Feeder(site.cluster, HOSTS[0], VMS)
    key, member = name_key(feeder.tag), keys.member(HOSTS[0], VMS)
    written = bytes((position.VERSION + 1,)) + position.encode(Position(9, 8, 7, 6.0, 1.0))[1:] + b"more"
    site.cluster.call(key, "HSET", key, member, written)
    feeder.push(feeder.table(names()))
    feeder.push(feeder.make(np.ones((3, len(METRICS))), 4.0, schema=SCHEMA))
    said: list[str] = []
    older = lone_worker(site.cluster, read_layout(site.cluster), FilterSettings(), report=said.append)
    eventually(lambda: said, meanwhile=lambda: older.turn(0.05))
    site.feed(HOSTS[1:3], 1, 2, meanwhile=lambda: older.turn(0.05))  # those of other partitions
    older.close()
    assert any(key in text and f"version {position.VERSION + 1}" in text for text in said)
    assert site.cluster.call(key, "HGET", key, member) == written


def test_a_layout_says_what_is_written(site: Site) -> None:
    for written, program in ((NEWEST, NEW), (NEWEST + 1, NEW)):
        layouts.put(site.cluster, layout.encode(Layout(record_format=written)))
        worker = site.filter(program)
        site.feed([written], 1, 8)
        assert site.versions(written, 8) == (NOW if written == NEWEST else NEXT)
        site.kill(worker)
