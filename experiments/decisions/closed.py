"""Closed loop: the real planner moves guests by the verdicts of a judge.

All judges have the same planner; those with a published way of choosing moves run a second time with that. In the
first half of a run nothing is moved and nothing counts: windows fill, and rules learn. A moved guest keeps its
averages, but counts as new on its host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.decisions import scores
from experiments.decisions.hosts import Hosts, guests_of
from experiments.decisions.judges import Judge
from experiments.decisions.scenarios import Scenario, Size, with_steps
from experiments.decisions.sight import Sight
from experiments.decisions.truth import AHEAD, HARM, LEVEL, WINDOW, by_harm, by_level
from experiments.simulation.arrays import Doubles
from experiments.simulation.contention import serve
from filters.decisions.migrations import FINISHED, STARTED, Migrations, Report, append
from filters.decisions.picture import Picture
from filters.decisions.plan import propose
from filters.decisions.verdict import Heat

MOVE_COST_SECONDS = 10.0  #: cost of a move, added to waiting seconds of guests
_PLAN_SECONDS = 10
_STEPPED = 0.15  #: fraction of hosts overloaded in each slot
_OVERHEAD_CORES = 0.5  #: at both ends, while a guest is copied
_LONG_AGO = -1_000_000


class Ran(NamedTuple):
    """One run. A move is needless by a truth if the source had no 10 s of overload and would have had none without the
    move; overload is in host-seconds that belong to 10 s of it."""

    moves: float
    needless_level: float
    needless_harm: float
    overload_level: float
    overload_harm: float
    waiting_seconds: float

    @property
    def cost(self) -> float:
        """Waiting seconds of guests plus the cost of moves."""
        return self.waiting_seconds + MOVE_COST_SECONDS * self.moves


def run(scenario: Scenario, judge: Judge, own: bool, seed: int, size: Size) -> Ran:
    """One run of a judge with the product's way of choosing moves, or its ``own``. Raises Void."""
    return _Loop(scenario, judge, own, seed, size._replace(cores=scenario.cores)).run()


def row(scenario: Scenario, judge: Judge, own: bool, runs: Sequence[Ran]) -> dict[str, object]:
    """Means over runs of one judge."""
    return {
        "scenario": scenario.name, "split": scenario.split, "judge": judge.name, "choosing": "own" if own else "ours",
        **{name: scores.mean([getattr(each, name) for each in runs]) for name in (*Ran._fields, "cost")},
    }  # fmt: skip


class _Loop:
    """A data center with a judge, a planner and migrations."""

    def __init__(self, scenario: Scenario, judge: Judge, own: bool, seed: int, size: Size) -> None:
        self._size, self._judge, self._method = size, judge, judge.method(own)
        steps = round(_STEPPED * size.hosts)
        self._work, _ = with_steps(scenario.work(seed, size), seed, steps, scenario.to)
        self._guests = guests_of(seed, size)
        self._hosts = Hosts(self._work, self._guests, size, scenario)
        wanted = {(judge.interval, judge.history), (0, False)}
        self._sight = Sight(scenario, size, scenario.faults(seed, size), wanted)
        self._stepper, self._every = judge.begin(size.hosts), max(_PLAN_SECONDS, judge.interval)
        self._log, self._due = Migrations(), list[tuple[int, int, Report]]()
        self._since = np.full(len(self._guests.home), _LONG_AGO)

    def run(self) -> Ran:
        """Simulate all seconds; the second half counts."""
        moves, needless, learned = 0, np.zeros(2), self._size.seconds // 2
        load, delay, ran = np.zeros((3, self._size.seconds, self._size.hosts))
        for second in range(self._size.seconds):
            self._finish(second)
            done = self._hosts.second(second, _OVERHEAD_CORES * self._moving())
            wanted = self._guests.wanted(self._work, second, self._size.cores)
            for kept, each in ((load, wanted / self._size.cores), (delay, done.delay), (ran, done.run)):
                kept[second] = np.bincount(self._hosts.place, each, self._size.hosts)
            self._sight.take(second, self._hosts, done, second - self._since)
            said = self._stepper.step(self._sight)
            if second < learned:
                continue
            picture = self._sight.newest(self._judge.interval) if (second + 1) % self._every == 0 else None
            if picture is not None and (heat := said.heat()).verdicts:
                for report in self._plan(second, heat, picture):
                    moves += 1
                    needless += self._needless(second, int(report.source, 16))
                    self._begin(second, report)
        truths = by_level(load[learned:]), by_harm(delay[learned:], ran[learned:])
        overload = (float(each.bad.sum()) for each in truths)
        return Ran._make((moves, *needless.tolist(), *overload, float(delay[learned:].sum())))

    def _plan(self, second: int, heat: Heat, picture: Picture) -> list[Report]:
        plan = propose(picture, heat, self._method, self._log, float(second))
        return [Report(move.vm.id, move.source.id, move.destination.id, STARTED) for move in plan.moves]

    def _moving(self) -> Doubles:
        ends = [int(host, 16) for _, _, report in self._due for host in (report.source, report.destination)]
        return np.bincount(np.asarray(ends, np.int64), minlength=self._size.hosts).astype(np.float64)

    def _finish(self, second: int) -> None:
        for due, vm, report in [each for each in self._due if each[0] <= second]:
            self._due.remove((due, vm, report))
            self._hosts.place[vm], self._since[vm] = int(report.destination, 16), second
            self._log, _ = append(self._log, report._replace(phase=FINISHED), float(second))

    def _begin(self, second: int, report: Report) -> None:
        vm = int(report.vm.removeprefix("vm-"))
        self._log, _ = append(self._log, report, float(second))
        self._due.append((second + 2 + round(float(self._guests.memory[vm])), vm, report))

    def _needless(self, second: int, host: int) -> Doubles:
        """Whether (2,), by level and by harm, there were no 10 s of overload, even without the move."""
        guests = np.flatnonzero(self._hosts.place == host)
        rows, carried, vcpus = list[Doubles](), np.zeros(len(guests)), self._guests.vcpus[guests]
        for at in range(max(0, second - 2 * WINDOW), min(self._size.seconds, second + AHEAD + WINDOW)):
            wanted = self._guests.wanted(self._work, at, self._size.cores)[guests]
            done = serve(wanted, carried, np.zeros_like(guests), self._size.cores, vcpus, np.zeros(1))
            carried = done.carried
            rows.append(np.array([wanted.sum(), done.delay.sum(), (done.delay + done.run).sum()]))
        level, delay, time = (np.convolve(column, np.ones(WINDOW), "valid") for column in np.asarray(rows).T)
        overloaded = (level >= LEVEL * WINDOW * self._size.cores).any()
        return np.array([not overloaded, not (delay >= HARM * np.maximum(time, 1e-9)).any()], np.float64)
