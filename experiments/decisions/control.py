"""Control run: hot hosts give VMs away; effect of a rule on a data center.

Which VM goes where is the plan of ``filters.decisions.plan`` in short, over arrays: selection ``most_cpu`` and
placement ``least_loaded`` under the limits of its Policy. Left out is what this experiment has none of: labels, memory
that runs out, other resources than CPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from acquisition.config.decisions import Policy
from experiments.decisions.load import Bools, Floats, Ints, Load, measured
from experiments.decisions.migration import OVERHEAD, Fleet
from experiments.decisions.monitor import Doubles, Monitor
from experiments.decisions.rules import RULES, drifts_of, window_of
from experiments.decisions.truth import HEALTHY, OVERLOADED
from experiments.decisions.watch import Watch

#: The limits of moves. Without the cool-down of a VM, which forbids flaps whatever the rule: here they are to be seen.
POLICY = Policy(cool_down_seconds=0.0)


class Method(NamedTuple):
    """How decisions are made: a way of watching, a rule, its parameters. ``rule`` empty: nobody acts;
    ``oracle``: the sustained load itself is known, at once."""

    watch: Watch
    rule: str
    parameters: Any = None


class Outcome(NamedTuple):
    """Of one run. ``needless`` migrations left a host that was healthy; ``overload_seconds`` are host-seconds at a
    sustained level of 0.9 or more, ``lost_seconds`` host-seconds of demand above what hosts have."""

    migrations: int
    needless: int
    flaps: int
    overload_seconds: float
    lost_seconds: float
    host_hours: float


class Seen(NamedTuple):
    """Basis of a decision: verdicts and loads of hosts (H,), loads of VMs (V,), ratios of a host."""

    hot: Bools
    abstained: Bools
    excess: Doubles
    used: Doubles
    vms: Doubles


NOBODY, ORACLE = "nobody", "oracle"


def control(load: Load, method: Method, policy: Policy = POLICY) -> Outcome:
    """Run the load and carry the plan out at every sample."""
    fleet = Fleet(load.home, load.memory, load.hosts)
    eyes = _Eyes(load, method)
    needless, overloaded, lost = 0, 0, 0.0
    for tick in range(load.ticks):
        fleet.finish(tick)
        wanted = np.bincount(fleet.place, load.demand[tick], load.hosts) + OVERHEAD * fleet.moving
        level = np.bincount(fleet.place, load.level[tick], load.hosts).astype(np.float64)
        overloaded += int((level >= OVERLOADED).sum())
        lost += float(np.maximum(wanted - 1.0, 0.0).sum())
        seen = eyes.look(tick, wanted.astype(np.float32), level, fleet)
        for vm, target in plan(seen, fleet, policy, tick) if seen is not None else ():
            needless += bool(level[fleet.place[vm]] < HEALTHY)
            fleet.begin(tick, vm, target)
    flaps = sum(each.flap for each in fleet.begun)
    hours = load.hosts * load.ticks / 3600.0
    return Outcome(len(fleet.begun), needless, flaps, float(overloaded), lost, hours)


class _Eyes:
    """View of the decision maker at a tick; None where there is nothing new to decide on."""

    def __init__(self, load: Load, method: Method) -> None:
        self._load, self._method = load, method
        watch = method.watch
        acts = method.rule not in (NOBODY, ORACLE)
        window, drifts = (window_of(method.parameters), drifts_of([method.parameters])) if acts else (1, ())
        self._hosts = Monitor(watch, load.hosts, window, drifts)
        self._vms = Monitor(watch, len(load.home), 1)
        self._hot = np.zeros(load.hosts, np.bool_)
        self._always = np.ones(len(load.home), np.bool_)
        if acts:
            self._hosts.warm(load.before)
            self._vms.sample(load.level[0].astype(np.float64), self._always)

    def look(self, tick: int, wanted: Floats, level: Doubles, fleet: Fleet) -> Seen | None:
        """Take one second in."""
        if self._method.rule == NOBODY:
            return None
        if self._method.rule == ORACLE:
            hot = level >= OVERLOADED
            return Seen(hot, np.zeros_like(hot), level - OVERLOADED, level, self._load.level[tick].astype(np.float64))
        wrong = self._load.wrong[tick]
        used = np.where(np.isnan(wrong), measured(wanted), wrong)
        share = 1.0 / np.maximum(wanted, 1.0)  # a full host gives each VM less than it asks for
        vms = np.maximum(self._load.demand[tick], 0.0) * share[fleet.place]
        fresh = self._hosts.tick(used, self._load.valid[tick])
        self._vms.tick(vms, self._always)
        return self._judge() if fresh else None

    def _judge(self) -> Seen:
        verdicts = RULES[self._method.rule](self._hosts, self._method.parameters, self._hot)
        self._hot = np.where(verdicts.abstained, self._hot, verdicts.hot)
        return Seen(verdicts.hot, verdicts.abstained, verdicts.excess, self._hosts.mean, self._vms.mean)


def plan(seen: Seen, fleet: Fleet, policy: Policy, tick: int) -> list[tuple[int, int]]:
    """Moves (vm, target) to begin at ``tick``: hot hosts by heat, one VM each, the greatest first."""
    free = fleet.free(tick, policy.settle_seconds)
    sources = np.flatnonzero(seen.hot & free)
    if not len(sources):
        return []
    may_move = ~fleet.away & (tick - fleet.since >= max(policy.young_seconds, policy.cool_down_seconds))
    may_move &= seen.vms >= policy.least_gain
    takers = free & ~seen.hot & ~seen.abstained
    used = seen.used + fleet.arriving(seen.vms)
    chosen = {int(host): _ranked(int(host), fleet.place, seen.vms, may_move) for host in sources}
    moves: list[tuple[int, int]] = []
    for attempt in range(policy.tries_per_host):
        tried = [(float(seen.vms[vms[attempt]]), host) for host, vms in chosen.items() if attempt < len(vms)]
        for part, host in sorted(tried, reverse=True):
            target = _least_loaded(used, takers, part, 1.0 - policy.headroom)
            if target is not None and len(moves) < policy.moves:
                moves.append((int(chosen.pop(host)[attempt]), target))
                takers[target] = False
    return moves


def _ranked(host: int, place: Ints, vms: Doubles, may_move: Bools) -> Ints:
    """The VMs of a host that may be moved, most CPU first."""
    there = np.flatnonzero((place == host) & may_move)
    return there[np.argsort(-vms[there], kind="stable")]


def _least_loaded(used: Doubles, takers: Bools, part: float, limit: float) -> int | None:
    """The host with the least load that takes ``part`` more within ``limit``."""
    candidates = np.flatnonzero(takers & (used + part <= limit))
    return int(candidates[np.argmin(used[candidates])]) if len(candidates) else None
