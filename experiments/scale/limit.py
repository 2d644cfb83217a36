"""Row "distance to the limit": shard CPU per frame, relative to a bare XADD.

End to end is the whole pipeline at a fixed rate on one shard: XADD, the filter's reads, the smoothed records,
positions, trimming, the writers' status, the freshness reader. Bare is a fresh shard that gets the same number
of frames of the same size from the same number of connections at the same phases, each in a write of its own, and
trims its streams by ``MAXLEN ~`` to the pipeline's length. The two take turns in one run, and the
median of the ratios counts. CPU is user and system time of the redis-server, all threads.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from acquisition.shards.servers.launch import start_shards
from experiments.harness import ingestion
from experiments.harness.options import Options
from experiments.harness.usage import cpu_seconds
from experiments.processes.control import Child, python
from experiments.scale.runs import RETENTION, WARM_UP, Extent, Row, tell
from filters.worker.partitions.settings import FilterSettings

_HOSTS, _QUICK_HOSTS = 4000, 200
_ENTITIES, _METRICS = 100, 15
_FRAME_BYTES = 96 + _ENTITIES * (8 + 5 * _METRICS)
_PARTITIONS = 64
_READY_SECONDS = 120.0


def row(extent: Extent) -> Row:
    """Alternate end to end and bare, as often as set by ``extent``."""
    options = Options(
        hosts=_QUICK_HOSTS if extent.quick else _HOSTS,
        entities=_ENTITIES,
        metrics=_METRICS,
        seconds=extent.seconds,
        warmup=WARM_UP,
        retention_seconds=RETENTION,
        shards=1,
        check=20,
    )
    pairs: list[dict[str, Any]] = []
    failures: list[str] = []
    for number in range(extent.repeats):
        run = ingestion.measure(options)
        tell("end to end", number, run)
        failures += [f"end to end: {failure}" for failure in run["failures"][:3]]
        figures = run["figures"]
        whole = figures["cpu_cores"]["shards"] / figures["frames_per_second"] * 1e6
        bare = measure_bare(options)
        failures += [f"bare: {bare['missed']} frames were not sent in time"] if bare["missed"] else []
        pairs.append({"end_to_end_us": round(whole, 2), "bare_us": bare["us"], "ratio": round(whole / bare["us"], 3),
                      "end_to_end_frames_per_second": figures["frames_per_second"],
                      "bare_frames_per_second": bare["frames_per_second"]})  # fmt: skip
    ratio = median(pair["ratio"] for pair in pairs)
    found = {"frame_bytes": _FRAME_BYTES, "connections": options.hosts, "ratio": ratio, "pairs": pairs}
    return Row([], found, failures)


def measure_bare(options: Options) -> dict[str, Any]:
    """The bare XADDs of one window: microseconds of the shard per frame."""
    with tempfile.TemporaryDirectory(prefix="shardpulse-bare-") as name:
        directives = {"maxclients": str(options.hosts + 64)}
        with (
            start_shards(1, Path(name) / "shard", directives=directives) as shards,
            Child("bare writer", python("experiments.scale.bare_writer")) as writer,
        ):
            return _window(options, str(shards.addresses[0]), shards.pids[0], writer)


def _window(options: Options, shard: str, pid: int, writer: Child) -> dict[str, Any]:
    writer.send({"shard": shard, "workload": options.workload._asdict(), "maxlen": kept_entries(options)})
    writer.receive(_READY_SECONDS)
    writer.send({"do": "start"})
    time.sleep(options.warmup + 1.0)
    before, cpu, began = _mark(writer), cpu_seconds(pid), time.monotonic()
    time.sleep(options.seconds)
    after, used = _mark(writer), cpu_seconds(pid) - cpu
    frames = after["answered"] - before["answered"]
    writer.send({"do": "stop"})
    return {
        "us": round(used / frames * 1e6, 2),
        "frames_per_second": round(frames / (time.monotonic() - began)),
        "missed": after["missed"] - before["missed"],
    }


def kept_entries(options: Options) -> int:
    """Entries kept by the pipeline in a stream: those of the retention, or as many as fit in its bytes."""
    settings = FilterSettings()
    by_time = options.hosts * options.rate / _PARTITIONS * RETENTION
    return max(1, round(min(by_time, settings.retention_bytes / _FRAME_BYTES)))


def _mark(writer: Child) -> dict[str, Any]:
    writer.send({"do": "mark"})
    return writer.receive(30.0)
