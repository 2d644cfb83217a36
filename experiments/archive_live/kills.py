"""Archivers that are killed at random moments, and whether every frame is in its minute once."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import text

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster, read_layout
from acquisition.shards.launch import start_shards
from acquisition.trouble_log import TroubleLog
from acquisition.wire.layout import Layout
from acquisition.wire.lease import Holder
from experiments.archive_live.feed import MINUTE, Feed
from filters.archive import records, writing
from filters.archive.engine import make_engine, parse_url
from filters.archive.follower import Follower, Limits
from filters.archive.leases import Leases
from filters.archive.partition import Counts
from filters.archive.store import open_store
from filters.archive.values import Statistic


def kills(options: argparse.Namespace, url: str, place: Path) -> dict[str, Any]:
    """Archivers are killed at random moments; what is in the minutes then is compared with the frames."""
    random = np.random.default_rng(1)
    with start_shards(1, place / "shards") as shards:
        cluster = shards.connect(timeout=30.0)
        layout = read_layout(cluster)
        began = (int(time.time()) - options.ticks) // MINUTE * MINUTE - 2 * MINUTE
        feed, made, between = Feed(cluster, options, began), 0, 0
        for kill in range(options.kills):
            for tick in range(options.ticks * kill // options.kills, options.ticks * (kill + 1) // options.kills):
                made += feed.push(tick)
            before = _commits(url)
            child = os.fork()
            if not child:
                _follow(shards.connect(timeout=30.0), layout, url, lambda _: False)
            time.sleep(float(random.uniform(0.05, 0.8)))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            between += _commits(url) != before
        archived = _follow(shards.connect(timeout=30.0), layout, url, lambda counts: sum(counts[:2]) >= made)
        cluster.close()
    wrong = _wrong(url, feed)
    if wrong:
        raise ShardpulseError(f"{len(wrong)} minutes are not those of each frame once: {wrong[:5]}")
    return {
        "kills": options.kills, "after_a_commit": between, "samples_made": made, "archived": archived.archived,
        "gap": archived.gap, "minutes_compared": len(feed.sums), "minutes_wrong": len(wrong),
    }  # fmt: skip


def _follow(cluster: Cluster, layout: Layout, url: str, done: Callable[[Counts], bool]) -> Counts:
    """An archiver until something holds of its books; those that are killed have each other's leases."""
    with open_store(url) as store:
        leases = Leases(cluster, layout.tags, Holder("0" * 16, 60_000, "killed"))
        follower = Follower(cluster, layout, store, leases, TroubleLog(lambda _: None), Limits(read_bytes=200_000))
        while not done(follower.counts):
            time.sleep(min(0.01, follower.turn()))
        counts = follower.counts
    cluster.close()
    return counts


def _commits(url: str) -> list[int]:
    engine = make_engine(parse_url(url))
    with engine.connect() as connection:
        found = [int(row[0]) for row in connection.execute(text("SELECT commit_id FROM partitions ORDER BY partition"))]
    engine.dispose()
    return found


def _wrong(url: str, feed: Feed) -> list[tuple[int, int]]:
    """Hosts and minutes whose count, valid samples or mean are not those of the frames, each once."""
    left = dict(feed.sums)
    wrong = []
    engine = make_engine(parse_url(url))
    with engine.connect() as connection:
        for row in writing.take(connection, "minutes", "TRUE" if engine.dialect.name == "postgresql" else "1"):
            one = records.minute_of(row)
            key = (one.series.host, one.minute)
            valid, sums = left.pop(key, np.zeros((2, 1, 1)))
            known = np.nan_to_num(one.values[Statistic.VALID])
            total = np.nan_to_num(one.values[Statistic.MEAN]) * known
            if known.shape != valid.shape or (known != valid).any() or not np.allclose(total, sums, rtol=1e-4):
                wrong.append(key)
        connection.rollback()
    engine.dispose()
    return wrong + list(left)
