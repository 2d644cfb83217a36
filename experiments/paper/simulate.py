"""Discrete-event simulation of the pipeline, by service times.

It has hosts, shards, filter workers and readers.

Hosts send a frame each interval at phases of their own; a shard is a single server, which pays for waking up when it
was idle; a filter worker takes turns over its partitions with the product's own rules for lingering and the size of a
turn (``filters.worker.loop.pace``); readers poll. Every shard and every worker has its own core: contention of two
parts on one core is not simulated.

Costs are CPU seconds, measured with few hosts (``experiments.paper.calibration``). The simulation finds how often each
of them is paid at any size, and how long frames wait.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from acquisition.wire.keys import DEFAULT_PARTITIONS
from filters.worker.loop.channel import Arrivals, together
from filters.worker.loop.pace import Pace
from filters.worker.partitions.settings import FilterSettings

if TYPE_CHECKING:
    import simpy

    Events = Generator[simpy.Event, Any, None]

_LINGER = FilterSettings().linger_seconds
_WARM_UP = 2.5  #: seconds until the workers know their load
_BEHIND = 1.0  #: older frames are not waited for: a server is overloaded


class Costs(NamedTuple):
    """CPU seconds: of a shard per wake-up, per frame (stored, read and committed), per commit and per query of a
    reader; of a worker per turn, per frame and per commit, and its share of a core when idle."""

    shard_wake: float
    shard_frame: float
    shard_commit: float
    shard_query: float
    worker_turn: float
    worker_frame: float
    worker_commit: float
    worker_idle: float


class Setup(NamedTuple):
    """Setup of a simulation: ``hosts`` of ``samples`` each send ``rate`` frames a second to ``shards``, ``workers``
    filter them, and a reader queries ``watched`` partitions every ``poll`` seconds."""

    hosts: int
    samples: int = 1515
    rate: float = 1.0
    shards: int = 1
    workers: int = 1
    watched: int = 16
    poll: float = 0.01
    seconds: float = 4.0
    seed: int = 1


class Simulated(NamedTuple):
    """Results for the time after the warm-up: the busy share of the busiest shard and of the busiest worker, cores of
    all of each, events per second by name, and ages of frames in seconds when readable. ``behind``: not
    all frames were smoothed in time, so shares are of the work done and ages have no meaning."""

    shard: float
    worker: float
    shard_cores: float
    worker_cores: float
    rates: dict[str, float]
    age_p50: float
    age_p95: float
    behind: bool


class _Server:
    """A single server with a queue: work begins when all earlier work is done."""

    def __init__(self, wake: float) -> None:
        self._wake = wake
        self._free = 0.0
        self.busy = 0.0
        self.wakes = 0

    def serve(self, now: float, seconds: float) -> float:
        """Completion time of work that arrives now."""
        if self._free <= now:
            self._free = now
            self.wakes += 1
            seconds += self._wake
        self._free += seconds
        self.busy += seconds
        return self._free


class _Partition:
    """Frames waiting in a stream, with their times of sampling and storing, and the time of the worker's next read."""

    def __init__(self, number: int, shard: _Server) -> None:
        self.number = number
        self.shard = shard
        self.stored = deque[tuple[float, float]]()
        self.arrivals = Arrivals(0.0)
        self.listens = True  #: a read waits in the shard for the next frame

    def take(self, now: float) -> list[float]:
        """Sampling times of the frames stored by now."""
        taken = []
        while self.stored and self.stored[0][1] <= now:
            taken.append(self.stored.popleft()[0])
        return taken


class _Run:
    """One simulation."""

    def __init__(self, setup: Setup, costs: Costs) -> None:
        import simpy  # of the extra "experiments": the list of figures works without it

        self.setup, self.costs = setup, costs
        self.environment = simpy.Environment()
        self.shards = [_Server(costs.shard_wake) for _ in range(setup.shards)]
        self.partitions = [
            _Partition(number, self.shards[number * setup.shards // DEFAULT_PARTITIONS])
            for number in range(DEFAULT_PARTITIONS)
        ]
        self.workers = [_Worker(self, number) for number in range(setup.workers)]
        self.counts = dict.fromkeys(("frames", "commits", "turns"), 0)
        self.ages: list[float] = []

    def hosts(self) -> Events:
        """Frames at the phases of their hosts, all hosts as one process."""
        chance = np.random.default_rng(self.setup.seed)
        interval = 1.0 / self.setup.rate
        phases = np.sort(chance.uniform(0.0, interval, self.setup.hosts)).tolist()
        places = chance.integers(0, DEFAULT_PARTITIONS, self.setup.hosts).tolist()
        environment, cost, workers = self.environment, self.costs.shard_frame, self.workers
        began = 0.0
        while True:
            for phase, place in zip(phases, places, strict=True):
                if (wait := began + phase - environment.now) > 0.0:
                    yield environment.timeout(wait)
                partition, now = self.partitions[place], environment.now
                stored = partition.shard.serve(now, cost)
                partition.stored.append((now, stored))
                if partition.listens:
                    workers[place % len(workers)].hear(partition, stored)
            began += interval

    def reader(self) -> Events:
        """Positions of the watched partitions, spread over the shards."""
        each = self.costs.shard_query * self.setup.watched / len(self.shards)
        while True:
            for shard in self.shards:
                shard.serve(self.environment.now, each)
            yield self.environment.timeout(self.setup.poll)

    def note(self, sampled: Sequence[float], committed: float) -> None:
        """Note that frames became readable; the reader has them at its next look."""
        seen = math.ceil(committed / self.setup.poll) * self.setup.poll
        self.counts["frames"] += len(sampled)
        self.ages += [seen - at for at in sampled]

    def marks(self) -> tuple[dict[str, float], list[float], list[float]]:
        """Counts, and busy seconds of shards and workers, so far."""
        wakes = sum(shard.wakes for shard in self.shards)
        return {**self.counts, "wakes": wakes}, [each.busy for each in self.shards], [w.busy for w in self.workers]


class _Worker:
    """A filter worker: turns over its partitions, as ``filters.worker.loop.worker.Worker.turn``."""

    def __init__(self, run: _Run, number: int) -> None:
        self._run = run
        self._pace = Pace(_LINGER)
        self._ready: list[tuple[float, int]] = []  #: times of answers, and their partitions
        self._due: list[tuple[float, int]] = []  #: read times of lingering partitions
        self._woken: Any = None
        self.busy = 0.0
        self.number = number

    def hear(self, partition: _Partition, at: float) -> None:
        """Note the time at which the read waiting for a partition's next frame is answered."""
        partition.listens = False
        heapq.heappush(self._ready, (at, partition.number))
        if self._woken is not None and not self._woken.triggered:
            self._woken.succeed()

    def turns(self) -> Events:
        """The loop."""
        environment, costs, pace = self._run.environment, self._run.costs, self._pace
        while True:
            began = environment.now
            self._read_due(began)
            if not self._ready or self._ready[0][0] > began:
                yield from self._wait()
                if pace.gather:
                    yield environment.timeout(pace.gather)
            woke = environment.now
            taken = self._take(woke)
            frames = sum(len(sampled) for _, sampled in taken)
            seconds = costs.worker_turn + frames * costs.worker_frame + len(taken) * costs.worker_commit
            self.busy += seconds
            self._run.counts["turns"] += 1
            yield environment.timeout(seconds)
            for partition, sampled in taken:
                self._commit(partition, sampled)
            turn = environment.now - began
            pace.note_turn(turn, woke - began - turn * costs.worker_idle)
            pace.note_work(frames * self._run.setup.samples, seconds)

    def _wait(self) -> Events:
        """Wait until an answer arrives, or a partition is due."""
        environment = self._run.environment
        while True:
            self._read_due(environment.now)
            moments = [heap[0][0] for heap in (self._ready, self._due) if heap]
            if self._ready and self._ready[0][0] <= environment.now:
                return
            self._woken = environment.event()
            wait = max(0.0, min(moments, default=environment.now + 1.0) - environment.now)
            yield environment.any_of([self._woken, environment.timeout(wait)])

    def _read_due(self, now: float) -> None:
        """Read the due partitions: answered at once if a frame is stored, else by the next one."""
        while self._due and self._due[0][0] <= now:
            self._ask(self._run.partitions[heapq.heappop(self._due)[1]], now)

    def _ask(self, partition: _Partition, now: float) -> None:
        if partition.stored:
            self.hear(partition, max(now, partition.stored[0][1]))
        else:
            partition.listens = True

    def _take(self, now: float) -> list[tuple[_Partition, list[float]]]:
        """Frames taken by one turn."""
        taken, samples = [], 0
        while self._ready and self._ready[0][0] <= now and samples < self._pace.turn_samples:
            partition = self._run.partitions[heapq.heappop(self._ready)[1]]
            sampled = partition.take(now)
            partition.arrivals.note(len(sampled), now)
            taken.append((partition, sampled))
            samples += len(sampled) * self._run.setup.samples
        return taken

    def _commit(self, partition: _Partition, sampled: list[float]) -> None:
        now = self._run.environment.now
        self._run.counts["commits"] += 1
        self._run.note(sampled, partition.shard.serve(now, self._run.costs.shard_commit))
        if linger := partition.arrivals.worth(self._pace.linger):
            heapq.heappush(self._due, (together(now, linger, partition.number), partition.number))
        else:
            self._ask(partition, now)


def simulate(setup: Setup, costs: Costs) -> Simulated:
    """Run the pipeline for a while after the warm-up."""
    run = _Run(setup, costs)
    for process in (run.hosts(), run.reader(), *(worker.turns() for worker in run.workers)):
        run.environment.process(process)
    run.environment.run(_WARM_UP)
    run.ages.clear()
    counts, shards, workers = run.marks()
    run.environment.run(_WARM_UP + setup.seconds)
    after, shards_after, workers_after = run.marks()
    shares = [(last - first) / setup.seconds for first, last in zip(shards, shards_after, strict=True)]
    of_workers = [(last - first) / setup.seconds + costs.worker_idle
                  for first, last in zip(workers, workers_after, strict=True)]  # fmt: skip
    p50, p95 = np.percentile(run.ages, [50, 95]) if run.ages else (math.inf, math.inf)
    return Simulated(
        max(shares),
        max(of_workers),
        sum(shares),
        sum(of_workers),
        {name: (after[name] - counts[name]) / setup.seconds for name in after},
        float(p50),
        float(p95),
        bool(p95 > _BEHIND),
    )
