"""Destinations of a plan, in the order of the placement (pure).

Most hosts that do not take a VM lack room for it: the free room of all hosts is kept in one matrix, so that constraints
are checked only for hosts with room. A plan for a full data center considers every host for every VM.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from filters.decisions import capacity
from filters.decisions.constraints import affinity
from filters.decisions.constraints import hosts as host_constraints
from filters.decisions.constraints.planning_state import PlanningState
from filters.decisions.picture import Host, Vm
from filters.decisions.vm_placement.choice import VmPlacement

_ROUNDING = 1e-9  #: of a ratio
_NEAREST = 20  #: hosts with the least shortfall whose labels are checked
_EXAMPLES = 3  #: maximum number of reasons named for a VM without a host


Doubles = npt.NDArray[np.float64]


class Destinations:
    """Hosts that take VMs at all, cheapest first, kept in order while they fill."""

    def __init__(self, state: PlanningState, placement: VmPlacement) -> None:
        self._cost = placement.cost
        self._costs: dict[str, float] = {}
        self._order: list[tuple[float, str]] = []
        self._refused: dict[str, str] = {}  #: by host id
        for host in state.hosts.values():
            reason = host_constraints.host_refusal(host, state)
            cost = None if reason else placement.cost(host)
            if cost is None:
                self._refused[host.id] = f"{host.name}: {reason or 'MISSING: its capacity or use'}"
            else:
                self._costs[host.id] = cost
                self._order.append((cost, host.id))
        self._order.sort()
        self._limits = host_constraints.limits(state)
        self._greater = {  # maximum of two figures; MISSING ones of a resource that is not required do not count
            each: np.maximum if host_constraints.is_required(each, state) else np.fmax for each in self._limits
        }
        self._rows = {host_id: row for row, host_id in enumerate(self._costs)}
        self._ids = list(self._costs)
        hosts = [state.hosts[host_id] for host_id in self._ids]
        shape = len(self._limits), len(hosts)
        self._capacity = _matrix([[capacity.capacity(host, each) for host in hosts] for each in self._limits], shape)
        self._used = _matrix([[capacity.used(host, each) for host in hosts] for each in self._limits], shape)

    def still(self, host_id: str, vm: Vm, state: PlanningState) -> Host | None:
        """The host with this id if it takes ``vm``."""
        takes = host_id in self._costs and not _refusal(state.hosts[host_id], vm, state)
        return state.hosts[host_id] if takes else None

    def first(self, vm: Vm, state: PlanningState) -> Host | str:
        """The first host that takes ``vm``, of those that meet most of its wishes; else the reason none does."""
        lacking = self._lacking(vm)
        has_room = (lacking <= _ROUNDING).tolist()
        wishes, best, least = affinity.has_wishes(vm), None, 0
        for _, host_id in self._order:
            if not has_room[self._rows[host_id]]:
                continue
            host = state.hosts[host_id]
            missed = len(affinity.unmet(host, vm, state)) if wishes else 0
            if (best is None or missed < least) and not _refusal(host, vm, state):
                best, least = host, missed
                if not missed:
                    return host
        return best or self._why_none(vm, state, lacking)

    def _lacking(self, vm: Vm) -> Doubles:
        """Excess use of the scarcest resource of each host, as a ratio (H,); infinite if a figure of the host is
        MISSING. Unknown figures of the VM are left to the constraints."""
        found = np.full(len(self._ids), -np.inf)
        for row, (resource, limit) in enumerate(self._limits.items()):
            needed = capacity.demand(vm, resource)
            if needed is not None:
                found = self._greater[resource](found, self._used[row] + needed / self._capacity[row] - limit)
        return np.where(np.isnan(found), np.inf, found)

    def _why_none(self, vm: Vm, state: PlanningState, lacking: Doubles) -> str:
        others = [state.hosts[host_id] for _, host_id in self._order if host_id != vm.host]
        closed = [reason for host_id, reason in self._refused.items() if host_id != vm.host]
        reasons = [f"{host.name}: {_refusal(host, vm, state)}" for host in others[:_EXAMPLES]] + closed
        more = len(others) + len(closed) > _EXAMPLES
        shown = "; ".join(reasons[:_EXAMPLES]) + ("; …" if more else "")
        rows = np.argsort(lacking, kind="stable")[:_NEAREST].tolist()
        nearest = host_constraints.nearest((state.hosts[self._ids[row]] for row in rows), vm, state)
        return f"no host can take it ({shown or 'no other host'}){nearest}"

    def update(self, host: Host) -> None:
        """Reorder a host that has filled."""
        before = (self._costs[host.id], host.id)
        del self._order[bisect_left(self._order, before)]
        cost = self._cost(host)
        self._costs[host.id] = before[0] if cost is None else cost
        insort(self._order, (self._costs[host.id], host.id))
        used = [[capacity.used(host, each)] for each in self._limits]
        self._used[:, self._rows[host.id]] = _matrix(used, (len(used), 1))[:, 0]


def _refusal(host: Host, vm: Vm, state: PlanningState) -> str | None:
    return host_constraints.is_moving(host, state) or host_constraints.pair_refusal(host, vm, state)


def _matrix(values: Sequence[Sequence[float | None]], shape: tuple[int, int]) -> Doubles:
    """Matrix with NaN for None."""
    return np.array(values, np.float64).reshape(shape)
