"""What a scheduler could read: per class of hosts the age of the newest readable samples, and who sheds."""

from __future__ import annotations

import time
from typing import NamedTuple

from acquisition.link.cluster import Cluster, read_layout
from acquisition.model.metric import resource_set_id
from acquisition.wire.position import SHEDS, Position
from experiments.emulation.workload import host_number, resource_set
from experiments.harness.shard_counts import positions
from experiments.overload.scenario import CLASSES, Scenario

#: Samples that young are as a pipeline delivers them that keeps up.
FRESH_SECONDS = 2.0


class Sums(NamedTuple):
    """The filter's books over all hosts, in samples."""

    before: int
    applied: int
    lost: int


class Observer:
    """``ages`` per class: seconds from sampling to now of each host's newest samples, at every poll; ``latencies``:
    the same at the first poll at which they were there. Both are emptied by ``take``."""

    def __init__(self, cluster: Cluster, scenario: Scenario) -> None:
        self._cluster = cluster
        self._layout = read_layout(cluster)
        self._set = resource_set_id(resource_set(scenario.metrics).name)
        self._kinds = {host_number(index): scenario.kind(index) for index in range(scenario.hosts)}
        self._seen: dict[int, int] = {}
        self.sums = Sums(0, 0, 0)
        self.shedding = dict.fromkeys(CLASSES, 0)
        self.take()

    def poll(self) -> None:
        """Read all positions once."""
        every = positions(self._cluster, self._layout)
        now = time.time()
        found = {host: newest for (host, number), newest in every.items() if number == self._set}
        self.shedding = dict.fromkeys(CLASSES, 0)
        for host, newest in found.items():
            self._note(host, newest, now)
        rows = found.values()
        self.sums = Sums(sum(r.before for r in rows), sum(r.applied for r in rows), sum(r.lost for r in rows))

    def all_fresh(self) -> bool:
        """Whether, at one more look, what every host has sampled can be read within ``FRESH_SECONDS``."""
        self.take()
        self.poll()
        ages = self.take()[0]
        found = [age for kind in CLASSES for age in ages[kind]]
        return len(found) == len(self._kinds) and max(found) < FRESH_SECONDS

    def _note(self, host: int, newest: Position, now: float) -> None:
        kind = self._kinds[host]
        self.shedding[kind] += bool(newest.flags & SHEDS)
        if not newest.wall:
            return  # only its table has come
        age = now - newest.wall
        self.ages[kind].append(age)
        if self._seen.get(host) != newest.sequence:
            if host in self._seen:
                self.latencies[kind].append(age)
            self._seen[host] = newest.sequence

    def take(self) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
        """Ages and latencies by class since the last call."""
        taken = getattr(self, "ages", {}), getattr(self, "latencies", {})
        self.ages: dict[str, list[float]] = {kind: [] for kind in CLASSES}
        self.latencies: dict[str, list[float]] = {kind: [] for kind in CLASSES}
        return taken
