"""Pretended data center: directories are hosts, files are VMs, and `mv` migrates.

Usage: data_center.py DIRECTORY

A file holds the cores that its VM uses and its memory in GiB, such as "5.5 8". Every host has 8 cores and 64 GiB, and a
probe's own writer, which sends a sample of the host and of its VMs each second.
"""

import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path

from acquisition.config import loader
from acquisition.config.endpoints import credentials, seeds
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import GAUGE, Metric, resource_set_id, schema_hash
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.writer import Writer
from acquisition.wire.frame import Samples
from acquisition.wire.table import Entity, Table

CORES, GIB = 8.0, float(1 << 30)
UNITS = {"ratio": "ratio", "bytes": "bytes", "count": "count"}
HOST_METRICS = ("cpu_idle_ratio", "cpu_iowait_ratio", "cpu_count", "memory_total_bytes", "memory_available_bytes")
VM_METRICS = ("cpu_ratio", "cpu_guest_ratio", "memory_resident_bytes", "memory_assigned_bytes", "vcpu_count", "state")


class Host:
    """One pretended host, made of the files of a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.name = directory, directory.name
        shards = loader.load().shards
        self.writer = Writer(host_id(self.name), self.name, seeds(shards), credentials(shards), Outbox(None))

    def sample(self, now: float) -> None:
        """Send the figures of the host and of its VMs."""
        vms = {path.name: tuple(map(float, path.read_text().split())) for path in sorted(self.directory.iterdir())}
        busy, used = (sum(each) for each in zip((0.0, 0.0), *vms.values(), strict=True))
        host = (1.0 - min(busy / CORES, 1.0), 0.0, CORES, 64 * GIB, (64 - used) * GIB)
        self._send("host", HOST_METRICS, {self.name: host}, now)
        if vms:
            rows = {name: (cores, cores, gib * GIB, gib * GIB, CORES, 1.0) for name, (cores, gib) in vms.items()}
            self._send("vms", VM_METRICS, rows, now)
        self.writer.drain(0.2)

    def _send(self, name: str, names: Sequence[str], rows: dict[str, tuple[float, ...]], now: float) -> None:
        metrics = tuple(Metric(each, UNITS.get(each.rpartition("_")[2], ""), GAUGE, 0.0, 1e15, "") for each in names)
        kind = "host" if name == "host" else "vm"
        entities = tuple(
            Entity(entity_id(kind, each, self.name), kind, each, self.name, each, {"accelerator": "kvm"})
            for each in rows
        )
        self.writer.offer_table(
            Table(self.name, name, 1.0, "pretended", True, metrics, entities), int(now), now, time.monotonic()
        )
        self.writer.offer(
            Samples(
                resource_set_id(name), schema_hash(metrics), len(rows), len(names), 1.0, int(now), now,
                time.monotonic(), array("Q", [each.id for each in entities]).tobytes(),
                array("f", [value for row in rows.values() for value in row]).tobytes(),
            )
        )  # fmt: skip


def main(directory: Path) -> None:
    """Sample all hosts of a directory once per second."""
    hosts = [Host(path) for path in sorted(directory.iterdir())]
    while True:
        now = time.time()
        for host in hosts:
            host.sample(now)
        time.sleep(1.0 - time.time() % 1.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
