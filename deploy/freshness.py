"""Freshness meter: delay from sampling to readable smoothed state.

A separate process, so that drawing the view does not disturb it. It polls the applied positions,
which the filter commits in one transaction with the smoothed state, every few milliseconds;
when a position has a new tick, freshness is the wall clock at that moment minus the sampling time in the
position. The polling period is included. The first frame of a resource set is
not measured: it may have been there before.

    python deploy/freshness.py FILE HOST:PORT…       keeps the newest figures in FILE, as JSON
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from pathlib import Path

from acquisition.errors import FrameError, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.local_shards import LocalShards
from acquisition.wire import keys, position
from acquisition.wire.layout import Layout

POLL_SECONDS = 0.005
_SURVEY_SECONDS = 1.0
_TELL_SECONDS = 0.25
_KEPT = 10000  #: newest delays, from which the percentiles are computed


class Freshness:
    """Polls positions and keeps the measured delays, in milliseconds."""

    def __init__(self, cluster: Cluster, layout: Layout) -> None:
        self._cluster = cluster
        self._layout = layout
        self._tags: tuple[str, ...] = ()
        self._surveyed = 0.0
        self._ticks: dict[bytes, tuple[int, int]] = {}
        self.delays: deque[float] = deque(maxlen=_KEPT)
        self.frames = 0

    def poll(self) -> None:
        """Poll the partitions that have hosts; once a second all partitions."""
        now = time.monotonic()
        survey = now - self._surveyed >= _SURVEY_SECONDS
        tags = self._layout.tags if survey else self._tags
        replies = self._cluster.gather([(keys.applied(tag), ("HGETALL", keys.applied(tag))) for tag in tags])
        wall = time.time()
        for reply in replies:
            if isinstance(reply, list):
                for member, data in zip(reply[::2], reply[1::2], strict=True):
                    self._take(member, data, wall)
        if survey:
            self._surveyed = now
            self._tags = tuple(
                tag for tag, reply in zip(tags, replies, strict=True) if isinstance(reply, list) and reply
            )

    def _take(self, member: bytes, data: bytes, wall: float) -> None:
        try:
            found = position.decode(data)
        except FrameError:
            return
        before = self._ticks.get(member)
        self._ticks[member] = (found.epoch, found.tick)
        if before is not None and before != (found.epoch, found.tick):
            self.frames += 1
            self.delays.append((wall - found.wall) * 1000.0)


def percentile(ordered: list[float], part: float) -> float:
    """Value with the fraction ``part`` of the ordered values below it (nearest rank)."""
    return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3)


def main(file: Path, directory: str) -> None:
    """Poll the shards with state in ``directory`` until killed."""
    cluster = Cluster(LocalShards(directory))
    freshness = Freshness(cluster, read_layout(cluster))
    due = told = time.monotonic()
    known = 0
    while True:
        try:
            freshness.poll()
        except ShardpulseError:
            time.sleep(0.1)  # a shard is unavailable: the next delay counts
        now = time.monotonic()
        if freshness.frames > known and now - told >= _TELL_SECONDS:
            told, known, delays = now, freshness.frames, sorted(freshness.delays)
            line = {"p50": percentile(delays, 0.5), "p99": percentile(delays, 0.99), "frames": known}
            part = file.with_suffix(".part")
            part.write_text(json.dumps(line))
            part.replace(file)  # readers see the old figures or the new ones
        due = max(due + POLL_SECONDS, now)
        time.sleep(due - now)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
