"""Backlog run: an archiver in this process empties the streams."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from acquisition.errors import UnavailableError
from acquisition.link.layouts import read_layout
from acquisition.log import TroubleLog
from acquisition.shards.servers.launch import start_shards
from acquisition.wire.lease import Holder
from experiments.archive_live import server
from experiments.archive_live.feed import MINUTE, Feed
from experiments.harness import usage
from filters.archive.database.engine import make_engine, parse_url
from filters.archive.database.store import open_store
from filters.archive.following.follower import Follower, Limits
from filters.archive.following.leases import Leases

_PATIENCE = 300.0
_AHEAD_SECONDS, _KEPT_SECONDS = 10, 20  #: of frames in the streams after the part read, as partitions differ; before it


class Cost(NamedTuple):
    """Samples, seconds by the clock, and CPU seconds of archiver, database and shards."""

    samples: int
    seconds: float
    archiver: float
    database: float
    shards: float


def backlog(options: argparse.Namespace, url: str, place: Path) -> dict[str, Any]:
    """An archiver in this process reads the streams, a few minutes of frames at a time."""
    with start_shards(2, place / "shards") as shards, open_store(url) as store:
        cluster, feeding = shards.connect(timeout=60.0), shards.connect(timeout=60.0)
        layout = read_layout(cluster)
        began = (int(time.time()) - options.ticks) // MINUTE * MINUTE - 2 * MINUTE
        leases = Leases(cluster, layout.tags, Holder(os.urandom(8).hex(), 60_000, "measured"))
        follower = Follower(
            cluster, layout, store, leases, TroubleLog(lambda line: print(line, file=sys.stderr)), Limits()
        )
        while len(follower.partitions) < layout.partitions:
            time.sleep(min(0.05, follower.turn()))
        engine = make_engine(parse_url(url))
        feed = Feed(feeding, options, began)
        parts = list(_parts(options, feed, follower, lambda: _spent(engine, shards.pids)))
        counts, state = follower.counts, server.state_bytes(engine)
        engine.dispose()
        cluster.close()
        feeding.close()
    whole = Cost(*(sum(column) for column in zip(*parts, strict=True)))
    return {
        "samples_made": whole.samples, "archived": counts.archived, "gap": counts.gap,
        **_figures(whole, options),
        "state_bytes": state, "state_bytes_per_entity": round(state / options.hosts / options.entities, 1),
        "process_most_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "commits": follower.counters["commits"], "late": follower.counters["late"],
        "threads": threading.active_count(),
    }  # fmt: skip


def _parts(
    options: argparse.Namespace, feed: Feed, follower: Follower, spent: Callable[[], tuple[float, float, float]]
) -> Iterator[Cost]:
    """Feed frames and have them archived, all at once or minute by minute; the cost of each part."""
    made = taken = fed = 0
    ends = range(MINUTE, options.ticks, MINUTE) if options.in_minutes else ()
    for end in (*ends, options.ticks):
        while fed < min(end + _AHEAD_SECONDS, options.ticks):
            made += feed.push(fed)
            fed += 1
        before, began = spent(), time.monotonic()
        wanted = made // fed * end
        while follower.counters["samples"] < wanted or (end == options.ticks and sum(follower.counts[:2]) < made):
            time.sleep(min(0.05, follower.turn()))
            if time.monotonic() > began + _PATIENCE:
                raise UnavailableError(f"{follower.counts} of {made} samples after {_PATIENCE:g} s")
        seconds, now = time.monotonic() - began, follower.counters["samples"]
        yield Cost(now - taken, seconds, *(now - then for now, then in zip(spent(), before, strict=True)))
        taken = now
        feed.trim(end - _KEPT_SECONDS)


def _spent(engine: Any, shards: list[int]) -> tuple[float, float, float]:
    return time.process_time(), server.cpu_seconds(engine), sum(map(usage.cpu_seconds, shards))


def _figures(cost: Cost, options: argparse.Namespace) -> dict[str, Any]:
    """Per sample, and in cores at live speed, one frame per host and second."""
    live = options.hosts * options.entities * options.metrics
    names = ("archiver", "database", "shards")
    each = {name: getattr(cost, name) / cost.samples for name in names}
    return {
        "samples_per_second": round(cost.samples / cost.seconds),
        "times_live": round(cost.samples / cost.seconds / live, 1),
        "milliseconds_per_million": {name: round(each[name] * 1e9, 1) for name in names},
        "cores_live": {name: round(each[name] * live, 4) for name in names},
    }
