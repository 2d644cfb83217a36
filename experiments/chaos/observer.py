"""Observer of the flow: applied samples, freshness, silent hosts.

    python -m experiments.chaos.observer OUTPUT HOSTS CONFIG RESOURCE_SET

Polls the applied positions of all hosts and appends one JSON object per quarter of a second to OUTPUT. Freshness is
this machine's CLOCK_MONOTONIC when a record became readable, less that of its sampling, so that stepped wall clocks do
not affect it. Every observed frame of the catch-up after an outage counts with its full age; frames resent to a shard
that lost its memory do not, as they were readable before. A shard that does not answer costs only the readings of that
poll.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from acquisition.config import endpoints
from acquisition.config.loader import load
from acquisition.errors import FrameError, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model.ticks import slot_of
from acquisition.snapshot.reading.records import read_records
from acquisition.snapshot.values.members import Member
from acquisition.wire import keys, position
from acquisition.wire.layout import Layout
from acquisition.wire.records import smoothed
from experiments.emulation.workload import host_number

STALE_SECONDS = 2.5  #: without a new frame after which a host counts as silent
_POLL_SECONDS = 0.025
_WRITE_SECONDS = 0.25
_TAIL_BYTES = 1 << 16
_WATCHED = 12  #: hosts with records read for freshness


class Seen(NamedTuple):
    """One line of the output. ``at`` is CLOCK_MONOTONIC; ``silent`` counts hosts; ``applied`` samples; ``oldest`` is
    the greatest age in seconds, by the wall clock, of any host's newest samples; ``shedding`` counts hosts that report
    it."""

    at: float
    applied: int
    silent: int
    unanswered: int  #: partitions that could not be read
    fresh_ms: list[float]
    oldest: float = 0.0
    shedding: int = 0


class Observer:
    """Remembers when each host last reported."""

    def __init__(self, cluster: Cluster, layout: Layout, hosts: int, resource_set: int) -> None:
        self._cluster = cluster
        self._layout = layout
        self._set = resource_set
        self._commands = [(keys.applied(tag), ("HGETALL", keys.applied(tag))) for tag in layout.tags]
        self._watched = {self._name(index): self._member(host_number(index)) for index in range(min(hosts, _WATCHED))}
        now = time.monotonic()
        self._heard = {self._name(index): now for index in range(hosts)}
        self._sequences: dict[bytes, tuple[int, int]] = {}
        self._newest: dict[bytes, int] = {}
        self._applied: dict[bytes, int] = {}
        self._walls: dict[bytes, float] = {}
        self._shedding: set[bytes] = set()
        self._oldest = 0.0
        self._fresh: list[float] = []
        self._unanswered = 0

    def poll(self) -> None:
        """Read all positions once, and the records of watched hosts that have moved."""
        self._unanswered = 0
        wanted: list[tuple[Member, int]] = []
        now = time.monotonic()
        for reply in self._cluster.gather(self._commands):
            if not isinstance(reply, list):
                self._unanswered += 1
                continue
            for name, data in zip(reply[::2], reply[1::2], strict=True):
                self._take(name, data, now, wanted)
        if self._walls:
            self._oldest = max(self._oldest, time.time() - min(self._walls.values()))
        if wanted:
            self._measure(wanted)

    def write(self) -> Seen:
        """Observations since the last call."""
        now = time.monotonic()
        silent = sum(now - heard > STALE_SECONDS for heard in self._heard.values())
        seen = Seen(now, sum(self._applied.values()), silent, self._unanswered, self._fresh,
                    round(self._oldest, 3), len(self._shedding))  # fmt: skip
        self._fresh, self._oldest, self._shedding = [], 0.0, set()
        return seen

    def _take(self, name: bytes, data: bytes, now: float, wanted: list[tuple[Member, int]]) -> None:
        try:
            found = position.decode(data)
        except FrameError:
            return
        if found.flags & position.SHEDS and name in self._heard:
            self._shedding.add(name)
        before = self._sequences.get(name)
        if name not in self._heard or before == (found.epoch, found.sequence):
            return
        self._sequences[name] = (found.epoch, found.sequence)
        self._applied[name] = found.before + found.applied
        self._heard[name] = now
        if found.wall:  # else only its table has arrived
            self._walls[name] = found.wall
        newest = self._newest.get(name, 0)
        self._newest[name] = max(newest, found.sequence)
        if name in self._watched and 0 < newest < found.sequence:
            wanted.append((self._watched[name], slot_of(found.tick, self._layout.keep_ticks)))

    def _measure(self, wanted: list[tuple[Member, int]]) -> None:
        records = read_records(self._cluster, wanted)
        now = time.monotonic()
        for data in records:
            if isinstance(data, bytes):
                try:
                    self._fresh.append(round((now - smoothed.unpack_head(data).monotonic) * 1000.0, 2))
                except FrameError:
                    continue

    def _name(self, index: int) -> bytes:
        return keys.member(host_number(index), self._set).encode()

    def _member(self, host: int) -> Member:
        tag = self._layout.tag_of(host)
        return Member(tag, host, self._set, keys.smoothed(tag, host, self._set, 0)[:-1])


def read(path: Path) -> list[Seen]:
    """All lines of an output file so far."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    seen = []
    for line in lines:
        try:
            seen.append(Seen(**json.loads(line)))
        except ValueError:
            continue  # being written
    return seen


def newest(path: Path) -> Seen | None:
    """The last whole line of an output file; None before the first."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().split(b"\n")
        return Seen(**json.loads(lines[-2]))
    except (OSError, IndexError, ValueError):
        return None


def main(argv: Sequence[str]) -> None:
    """Until SIGTERM."""
    stopped: list[Any] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    cluster = endpoints.connect(load(argv[2]).shards)
    observer = Observer(cluster, read_layout(cluster), int(argv[1]), int(argv[3]))
    due = time.monotonic()
    with Path(argv[0]).open("a", buffering=1) as output:
        while not stopped:
            try:
                observer.poll()
            except ShardpulseError:
                time.sleep(_WRITE_SECONDS)
            if time.monotonic() >= due:
                output.write(json.dumps(observer.write()._asdict()) + "\n")
                due = time.monotonic() + _WRITE_SECONDS
            time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
