"""An archiver in this process takes what lies in the streams."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

from acquisition.errors import UnavailableError
from acquisition.link.cluster import Cluster, read_layout
from acquisition.shards.launch import start_shards
from acquisition.trouble_log import TroubleLog
from acquisition.wire import keys
from acquisition.wire.lease import Holder
from acquisition.wire.stream_id import parse
from experiments.archive_live import server
from experiments.archive_live.feed import MINUTE, Feed
from experiments.harness import usage
from filters.archive.engine import make_engine, parse_url
from filters.archive.follower import Follower, Limits
from filters.archive.leases import Leases
from filters.archive.store import open_store

_AHEAD_SECONDS = 4  #: of a backlog that lie in the streams beyond what was read


def backlog(options: argparse.Namespace, url: str, place: Path) -> dict[str, Any]:
    """An archiver in this process takes what lies in the streams; its CPU time is without that of the feed."""
    with start_shards(2, place / "shards") as shards, open_store(url) as store:
        cluster, feeding = shards.connect(timeout=30.0), shards.connect(timeout=30.0)
        layout = read_layout(cluster)
        began = (int(time.time()) - options.ticks) // MINUTE * MINUTE - 2 * MINUTE
        feed = Feed(feeding, options, began)
        leases = Leases(cluster, layout.tags, Holder(os.urandom(8).hex(), 60_000, "measured"))
        follower = Follower(
            cluster, layout, store, leases, TroubleLog(lambda line: print(line, file=sys.stderr)), Limits()
        )
        while len(follower.partitions) < layout.partitions:
            follower.turn()
        engine = make_engine(parse_url(url))
        made, fed, taking, of_server = 0, 0.0, 0.0, server.cpu_seconds(engine)
        process, shard_seconds = time.process_time(), sum(map(usage.cpu_seconds, shards.pids))
        for tick in range(options.ticks):
            before = time.thread_time()
            made += feed.push(tick)
            fed += time.thread_time() - before
            taking += _take(follower, feeding, (began + tick - _AHEAD_SECONDS) * 1000)
        started = time.monotonic()
        while follower.counts.archived + follower.counts.gap < made:
            time.sleep(min(0.05, follower.turn()))
            if time.monotonic() > started + 120:
                raise UnavailableError(f"{follower.counts} of {made} samples after two minutes")
        taking += time.monotonic() - started
        cpu = time.process_time() - process - fed
        of_server = server.cpu_seconds(engine) - of_server
        counts, state = follower.counts, server.state_bytes(engine)
        engine.dispose()
        shard_seconds = sum(map(usage.cpu_seconds, shards.pids)) - shard_seconds
        cluster.close()
        feeding.close()
    live_rate = options.hosts * options.entities * options.metrics
    return {
        "samples_made": made, "archived": counts.archived, "gap": counts.gap,
        "samples_per_second": round(made / taking), "times_live": round(made / taking / live_rate, 1),
        "archiver_us_per_sample": round(cpu / made * 1e6, 4), "server_us_per_sample": round(of_server / made * 1e6, 4),
        "archiver_cores_live": round(cpu / options.ticks, 4), "server_cores_live": round(of_server / options.ticks, 4),
        "shards_cores_live_with_feed": round(shard_seconds / options.ticks, 4),
        "state_bytes": state, "state_bytes_per_entity": round(state / options.hosts / options.entities, 1),
        "process_most_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "commits": follower.counters["commits"], "threads": threading.active_count(),
    }  # fmt: skip


def _take(follower: Follower, feeding: Cluster, until: int) -> float:
    """Turn until everything up to a time has been read, and take that out of the streams; seconds."""
    began = time.monotonic()
    while min(parse(one.read)[0] for one in follower._followed.values()) < until:
        if follower.turn() > 0.0:
            break
    took = time.monotonic() - began
    feeding.gather([
        (keys.raw(one.tag), ("XTRIM", keys.raw(one.tag), "MINID", one.read)) for one in follower._followed.values()
    ])  # fmt: skip
    return took
