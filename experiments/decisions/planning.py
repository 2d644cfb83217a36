"""Which VM goes where: the plan of ``filters.decisions.plan`` in short, over arrays.

Selection ``most_cpu`` and placement ``least_loaded`` under the limits of its Policy. Left out is what this
experiment has none of: labels, memory that runs out, other resources than CPU.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from acquisition.config.decisions import Policy
from experiments.decisions.load import Bools, Ints
from experiments.decisions.migration import Fleet
from experiments.decisions.monitor import Doubles


class Seen(NamedTuple):
    """What a decision is made from: verdicts and loads of hosts (H,), loads of VMs (V,), ratios of a host."""

    hot: Bools
    abstained: Bools
    excess: Doubles
    used: Doubles
    vms: Doubles


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
