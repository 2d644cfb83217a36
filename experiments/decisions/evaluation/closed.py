"""Closed loop: verdicts of a judge go to the real planner, and its moves are carried out.

Every judge has the same planner, and those with a published way of choosing run a second time with that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from acquisition.config.decisions import Decisions
from experiments.decisions.evaluation import scores
from experiments.decisions.evaluation.contention import serve
from experiments.decisions.evaluation.filtering import TAU, Filtered, Kept, Sample, reading
from experiments.decisions.evaluation.hosts import MEMORY_PER_GUEST, Guests, Hosts, guests_of
from experiments.decisions.evaluation.judges import Judge
from experiments.decisions.evaluation.scenarios import Scenario, Size, Work
from experiments.decisions.evaluation.scenarios.work import with_steps
from experiments.decisions.evaluation.truth import AHEAD, HARM, LEVEL, WINDOW
from experiments.decisions.load import Bools
from experiments.decisions.monitor import Doubles
from experiments.decisions.rules import Verdicts
from filters.decisions import capacity, ratios
from filters.decisions.method import Method, method_of
from filters.decisions.migrations import FINISHED, STARTED, Migrations, Report, append
from filters.decisions.picture import CPU, MEMORY, NETWORK, Host, Picture, Reading, Vm
from filters.decisions.plan import propose
from filters.decisions.verdict import Heat, Outcome, Verdict

PLAN_SECONDS = 10
MOVE_COST_SECONDS = 10.0  #: what a move counts beside waiting seconds of guests
_OVERHEAD_CORES = 0.5  #: at both ends, while a guest is copied
_GIB = float(1 << 30)
_ALPHA = 1.0 - np.exp(-1.0 / TAU)


class Ran(NamedTuple):
    """One run. Moves are needless by a truth where 10 s of overload neither were there nor came without the move."""

    moves: float
    needless_level: float
    needless_harm: float
    overload_seconds: float
    waiting_seconds: float

    @property
    def cost(self) -> float:
        """Waiting seconds of guests and what moves count."""
        return self.waiting_seconds + MOVE_COST_SECONDS * self.moves


def compare(scenario: Scenario, judges: Sequence[Judge], seeds: Sequence[int], size: Size) -> list[dict[str, object]]:
    """Rows by judge and way of choosing. Raises Void."""
    size, rows = size._replace(cores=scenario.cores), []
    works = [with_steps(scenario.work(seed, size), seed, 0.15) for seed in seeds]
    for judge in judges:
        for own in (False, True) if judge.selection else (False,):
            given = Decisions(selection=judge.selection, placement=judge.placement) if own else Decisions()
            runs = [
                _Loop(scenario, work, seed, size, judge, method_of(given)).run()
                for seed, work in zip(seeds, works, strict=True)
            ]
            rows.append({
                "scenario": scenario.name, "split": scenario.split, "judge": judge.name,
                "choosing": "own" if own else "ours",
                **{name: scores.mean([getattr(each, name) for each in runs]) for name in (*Ran._fields, "cost")},
            })  # fmt: skip
    return rows


class _Loop:
    """A data center with a judge, a planner and migrations."""

    def __init__(
        self, scenario: Scenario, work: Work, seed: int, size: Size, judge: Judge, method: Method
    ) -> None:
        self._size, self._work, self._method = size, work, method
        self._guests: Guests = guests_of(seed, size)
        self._hosts = Hosts(work, self._guests, size)
        self._valid: Bools = scenario.valid(seed, size)
        self._judge = judge.begin(size.hosts, scenario.interval)
        self._cpu, self._kept = Filtered(size.hosts, scenario.interval, 1), Kept(size.hosts, scenario.interval)
        self._used = np.zeros(len(self._guests.home))  #: moving averages of guests in cores
        self._log, self._due = Migrations(), list[tuple[int, int, Report]]()
        self._since = np.full(len(self._guests.home), -1_000_000)

    def run(self) -> Ran:
        """All seconds."""
        moves, needless, waiting = 0, np.zeros(2), 0.0
        load = np.empty((self._size.seconds, self._size.hosts))
        for second in range(self._size.seconds):
            self._finish(second)
            done = self._hosts.second(second, _OVERHEAD_CORES * self._moving())
            waiting += float(done.delay.sum())
            wanted = self._guests.wanted(self._work, second, self._size.cores)
            load[second] = np.bincount(self._hosts.place, wanted, self._size.hosts) / self._size.cores
            self._used += (done.run - self._used) * (_ALPHA if second else 1.0)
            values = self._hosts.metrics(done)
            verdicts = self._judge.step(Sample(values, self._valid[second]))
            if self._cpu.tick(values[CPU], self._valid[second]):
                self._kept.add(self._cpu.last, self._cpu.valid)
            if second % PLAN_SECONDS == 0 and verdicts.hot.any():
                for report in self._plan(second, verdicts, values):
                    moves += 1
                    needless += self._needless(second, int(report.source, 16))
                    self._begin(second, report)
        overloaded = np.cumsum(np.vstack([np.zeros(self._size.hosts), load]), axis=0)
        overload = (overloaded[WINDOW:] - overloaded[:-WINDOW] >= LEVEL * WINDOW).sum()
        return Ran(moves, float(needless[0]), float(needless[1]), float(overload), waiting)

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

    def _plan(self, second: int, verdicts: Verdicts, values: dict[str, Doubles]) -> list[Report]:
        outcomes = np.where(verdicts.hot, "hot", np.where(verdicts.abstained, "abstained", "not_hot"))
        heat = {
            f"{host:016x}": Verdict(Outcome(outcomes[host]), "", excess=float(verdicts.excess[host]))
            for host in range(self._size.hosts)
        }
        hot = frozenset(host for host, each in heat.items() if each.outcome is Outcome.HOT)
        plan = propose(self._picture(second, values), Heat(heat, hot), self._method, self._log, float(second))
        return [Report(move.vm.id, move.source.id, move.destination.id, STARTED) for move in plan.moves]

    def _picture(self, second: int, values: dict[str, Doubles]) -> Picture:
        there: list[list[int]] = [[] for _ in range(self._size.hosts)]
        for vm, host in enumerate(self._hosts.place.tolist()):
            there[host].append(vm)
        hosts = [self._host(second, host, there[host], values) for host in range(self._size.hosts)]
        return Picture(second, float(second), hosts)

    def _host(self, second: int, host: int, there: list[int], values: dict[str, Doubles]) -> Host:
        readings = {
            CPU: reading(CPU, self._cpu, host, self._kept),
            **{metric: _plain(metric, float(values[metric][host])) for metric in (MEMORY, NETWORK)},
            capacity.CPU_COUNT: _plain(capacity.CPU_COUNT, float(self._size.cores)),
            capacity.MEMORY_TOTAL: _plain(capacity.MEMORY_TOTAL, MEMORY_PER_GUEST * self._size.vms * _GIB),
        }
        guests = [self._guest(second, vm, host, readings) for vm in there]
        return Host(f"{host:016x}", f"h{host}", age_seconds=0.0, readings=readings, vms=guests)

    def _guest(self, second: int, vm: int, host: int, around: dict[str, Reading]) -> Vm:
        memory = float(self._guests.memory[vm]) * _GIB
        readings = {
            capacity.CPU_CORES: _plain(capacity.CPU_CORES, float(self._used[vm])),
            capacity.MEMORY_ASSIGNED: _plain(capacity.MEMORY_ASSIGNED, memory),
            capacity.MEMORY_RESIDENT: _plain(capacity.MEMORY_RESIDENT, memory),
        }
        for name, derive in ratios.of_vm(around).items():
            if made := derive(readings):
                readings[name] = made
        observed = min(float(second - self._since[vm]), 1e6)
        return Vm(f"vm-{vm}", f"vm{vm}", f"{host:016x}", readings=readings, observed_seconds=observed)

    def _needless(self, second: int, host: int) -> Doubles:
        """Whether (2,) no 10 s of overload, by level and by harm, were there or came without the move."""
        guests = np.flatnonzero(self._hosts.place == host)
        rows, carried, vcpus = list[tuple[float, float, float]](), np.zeros(len(guests)), self._guests.vcpus[guests]
        for at in range(max(0, second - 2 * WINDOW), min(self._size.seconds, second + AHEAD + WINDOW)):
            wanted = self._guests.wanted(self._work, at, self._size.cores)[guests]
            done = serve(wanted, carried, np.zeros_like(guests), self._size.cores, vcpus, np.zeros(1))
            carried = done.carried
            rows.append((wanted.sum(), done.delay.sum(), done.delay.sum() + done.run.sum()))
        level, delay, time = (np.convolve(column, np.ones(WINDOW), "valid") for column in np.asarray(rows).T)
        overloaded = (level >= LEVEL * WINDOW * self._size.cores).any()
        return np.array([not overloaded, not (delay >= HARM * np.maximum(time, 1e-9)).any()], np.float64)


def _plain(metric: str, value: float) -> Reading:
    return Reading(metric, value, last=value, validity="VALID", age_seconds=0.0, stale_seconds=0.0)
