"""Reference benchmarks of this machine, without the product.

Figures are compared as ratios to them.

Each takes about a second and is measured right before and right after a row, so that other load of the machine affects
both.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import hiredis
import numpy as np

from acquisition.errors import UnavailableError
from acquisition.shards.servers.launch import start_shards
from acquisition.wire import keys
from experiments.emulation import bare_entries
from experiments.emulation.workload import Workload
from experiments.harness.usage import cpu_seconds

_SECONDS = 1.0
_TOGETHER = 50  #: entries in one write
_KEPT = 100
_ALPHA = np.float32(0.2)


def xadd(entities: int, metrics: int) -> dict[str, float]:
    """Entries of the same frames through one connection to one shard, some in each write."""
    workload = Workload(1, entities, metrics, 1.0)
    head = bare_entries.head(keys.raw(keys.tags(keys.DEFAULT_PARTITIONS)[0]), _KEPT)
    entries = [head + payload for payload in bare_entries.payloads(workload)]
    together = b"".join(itertools.islice(itertools.cycle(entries), _TOGETHER))
    reader, sent = hiredis.Reader(), 0
    with (
        tempfile.TemporaryDirectory(prefix="shardpulse-figures-") as name,
        start_shards(1, Path(name)) as shards,
        bare_entries.connect(str(shards.addresses[0])) as connection,
    ):
        cpu, began = cpu_seconds(shards.pids[0]), time.monotonic()
        while (seconds := time.monotonic() - began) < _SECONDS:
            connection.sendall(together)
            sent += _TOGETHER
            for _ in range(_TOGETHER):
                while (reply := reader.gets()) is False:
                    reader.feed(connection.recv(1 << 16))
                if isinstance(reply, Exception):
                    raise UnavailableError(f"the shard refused a bare entry: {reply}")
        cpu = cpu_seconds(shards.pids[0]) - cpu
    samples = sent * entities * metrics
    return {"samples_per_second": samples / seconds, "cpu_seconds_per_million": cpu / samples * 1e6}


def numpy_pass(entities: int, metrics: int) -> dict[str, float]:
    """A moving average of frames in memory, frame by frame, by CPU time."""
    values = np.random.default_rng(1).random((64, entities, metrics), np.float32)
    mean, done, began = np.zeros((entities, metrics), np.float32), 0, time.process_time()
    while (seconds := time.process_time() - began) < _SECONDS / 2:
        for frame in values:
            mean += _ALPHA * (frame - mean)
        done += values.size
    return {"samples_per_second": done / seconds, "milliseconds_per_million": seconds / done * 1e9}


KINDS: dict[str, Callable[[int, int], dict[str, float]]] = {"xadd": xadd, "numpy": numpy_pass}
