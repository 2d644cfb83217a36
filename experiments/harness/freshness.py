"""Freshness reader: delay from sampling to a record readable as ``latest``.

A process of its own that asks the shards every few milliseconds for the applied positions of some
random hosts. When one has moved, it reads the smoothed record itself; freshness is this
machine's wall clock after that read, less the sampling time in the record. So the time of
polling is included, and the generator's lateness as well, because sampling times are the
schedule's. Of several frames of a host between two polls the newest is measured.

    python -m experiments.harness.freshness     (orders and answers as JSON lines, see ``main``)
"""

from __future__ import annotations

import select
import time
from typing import Any, NamedTuple

from acquisition.errors import FrameError
from acquisition.link.cluster import Batch, Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import parse_address
from acquisition.link.trust.credentials import Credentials
from acquisition.model.ticks import slot_of
from acquisition.snapshot.reading.records import read_records
from acquisition.snapshot.values.members import Member
from acquisition.wire import keys, position
from acquisition.wire.layout import Layout
from acquisition.wire.records import smoothed
from experiments.emulation.workload import host_number
from experiments.harness.quantiles import percentiles
from experiments.processes.control import Orders, say


class Watched(NamedTuple):
    """The watched hosts of one partition and the command that reads their positions."""

    members: tuple[Member, ...]
    command: tuple[str, tuple[str, ...]]


class Watch:
    """Polls the positions of ``hosts`` (numbers) and measures new ones."""

    def __init__(self, cluster: Cluster, layout: Layout, hosts: list[int], resource_set: int) -> None:
        self._cluster = cluster
        self._keep_ticks = layout.keep_ticks
        self._watched = _by_partition(layout, hosts, resource_set)
        self._batch = Batch([watched.command for watched in self._watched])
        self._told: list[Any] = [None] * len(self._watched)  #: the newest replies
        self._seen: dict[Member, int] = {}
        self.milliseconds: list[float] = []
        self.unreadable = 0

    def poll(self) -> None:
        """Read the positions once, and the new records."""
        told, self._told = self._told, self._cluster.gather(self._batch)
        wanted: list[tuple[Member, int]] = []
        for watched, before, reply in zip(self._watched, told, self._told, strict=True):
            if reply != before and isinstance(reply, list):
                for member, data in zip(watched.members, reply, strict=True):
                    if data is not None and self._moved(member, data):
                        wanted.append((member, slot_of(position.decode(data).tick, self._keep_ticks)))
        if wanted:
            self._measure(wanted)

    def _moved(self, member: Member, data: bytes) -> bool:
        found = position.decode(data)
        before = self._seen.get(member)
        self._seen[member] = found.tick
        return before is not None and found.tick != before

    def _measure(self, wanted: list[tuple[Member, int]]) -> None:
        records = read_records(self._cluster, wanted)
        now = time.time()
        for (member, _), data in zip(wanted, records, strict=True):
            try:
                record = smoothed.decode(data if isinstance(data, bytes) else b"")
            except FrameError:
                self.unreadable += 1
                continue
            self._seen[member] = record.tick
            self.milliseconds.append((now - record.wall) * 1000.0)


def _by_partition(layout: Layout, hosts: list[int], resource_set: int) -> list[Watched]:
    groups: dict[str, list[Member]] = {}
    for host in hosts:
        tag = layout.tag_of(host)
        prefix = keys.smoothed(tag, host, resource_set, 0)[:-1]
        groups.setdefault(tag, []).append(Member(tag, host, resource_set, prefix))
    return [
        Watched(
            tuple(members),
            (keys.applied(tag), ("HMGET", keys.applied(tag), *(keys.member(m.host, m.resource_set) for m in members))),
        )
        for tag, members in groups.items()
    ]


def main() -> None:
    """First order ``{shards, credentials, hosts, resource_set, poll_seconds}``, answered with ``{ready}``;
    ``{do: "begin"}`` discards earlier measurements; ``{do: "end"}`` is answered with the figures."""
    orders = Orders()
    task = orders.wait()
    cluster = Cluster([parse_address(text) for text in task["shards"]], Credentials(*task["credentials"]))
    hosts = [host_number(index) for index in task["hosts"]]
    watch = Watch(cluster, read_layout(cluster), hosts, task["resource_set"])
    say({"ready": True})
    period = float(task["poll_seconds"])
    due = time.monotonic()
    while True:
        if select.select([orders.fileno()], [], [], max(0.0, due - time.monotonic()))[0]:
            for order in orders.read():
                if order["do"] == "begin":
                    watch.milliseconds.clear()
                    watch.unreadable = 0
                elif order["do"] == "end":
                    say(figures(watch))
            continue
        watch.poll()
        due = max(due + period, time.monotonic())


def figures(watch: Watch) -> dict[str, Any]:
    """Figures measured since the beginning."""
    return {
        "freshness_ms": percentiles(watch.milliseconds),
        "readings": len(watch.milliseconds),
        "unreadable": watch.unreadable,
    }


if __name__ == "__main__":
    main()
