"""``python -m experiments.migrate_cost``: how long two shards stand still while a partition moves between them.

A partition of ``--hosts`` hosts (three smoothed records, names and status each, as frames of 101 x 15 leave them) and
raw streams of several sizes is moved with one MIGRATE, as `shardpulse shards add` does, between two idle shards.
One line of JSON per size: keys, megabytes (MEMORY USAGE), median seconds of the whole handing over.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from acquisition.link.cluster import Cluster
from acquisition.shards.launch import Shards, start_shards
from acquisition.shards.migrate import Mover, owners
from acquisition.shards.nodes import Members
from acquisition.wire import keys
from experiments.processes.program import program

_SAMPLES = 101 * 15
_FRAME = 96 + 101 * 8 + _SAMPLES * 4
_RECORD = 104 + 101 * 8 + _SAMPLES * 16
_TAG = keys.tags(keys.DEFAULT_PARTITIONS)[10]


@program("migrate_cost")
def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=156, help="hosts in the partition (default: 10,000 in 64)")
    parser.add_argument("--raw", type=float, nargs="+", default=[0, 1, 8, 16, 32], help="megabytes of raw stream")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as place, start_shards(2, Path(place, "s"), maxmemory_bytes=1 << 30) as shards:
        for raw in options.raw:
            print(json.dumps(measure(shards, options.hosts, raw, options.repeats)), flush=True)
    return 0


def measure(shards: Shards, hosts: int, raw: float, repeats: int) -> dict[str, float]:
    """Fill the partition and move it back and forth ``repeats`` times."""
    cluster = shards.connect(timeout=30.0)
    for address in shards.addresses:
        cluster.connect(address).call("FLUSHALL")
    fill(cluster, hosts, raw)
    cluster.close()
    slot, seconds = keys.slot_of(keys.raw(_TAG)), []
    with Members(shards.addresses) as members:
        mover = Mover(members, lambda _: None)
        for _ in range(repeats):
            source = owners(mover.look())[slot]
            (target,) = [node.id for node in mover.look() if node.id != source]
            count, size = len(members.keys(source, slot)), members.weigh(source, [slot])
            seconds.append(mover._hand_over(source, target, [slot]))
    return {"raw_mb": raw, "keys": count, "mb": round(size / 1e6, 1), "seconds": round(statistics.median(seconds), 4)}


def fill(cluster: Cluster, hosts: int, raw: float) -> None:
    """Write what a partition of so many hosts holds; floating-point noise does not compress, nor does this."""
    for host in range(hosts):
        written: list[tuple[str, tuple[object, ...]]] = []
        for place in range(keys.DEFAULT_KEEP_TICKS):
            key = keys.smoothed(_TAG, host, 1, place)
            written.append((key, ("SET", key, os.urandom(_RECORD), "EX", 600)))
        for key, size in ((keys.names(_TAG, host, 1), 8000), (keys.status(_TAG, host), 500)):
            written.append((key, ("SET", key, os.urandom(size))))
        key = keys.applied(_TAG)
        written.append((key, ("HSET", key, keys.member(host, 1), os.urandom(128))))
        cluster.gather(written)
    stream = keys.raw(_TAG)
    for _ in range(int(raw * 1e6 / _FRAME)):
        cluster.call(stream, "XADD", stream, "*", "f", os.urandom(_FRAME))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
