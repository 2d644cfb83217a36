"""Hosts that take VMs, in the order of a placement (pure)."""

from __future__ import annotations

from bisect import bisect_left, insort

from filters.decisions.constraints import hosts as host_constraints
from filters.decisions.constraints.planning_state import PlanningState
from filters.decisions.picture import Host, Vm
from filters.decisions.refusal import Refusal, Refusals
from filters.decisions.vm_placement import VmPlacement

_EXAMPLES = 3  #: reasons that are told of a VM for which there is no host


class Destinations:
    """Hosts that take VMs at all, the cheapest first, kept in order while they fill."""

    def __init__(self, state: PlanningState, placement: VmPlacement) -> None:
        self._cost = placement.cost
        self._costs: dict[str, float] = {}
        self._order: list[tuple[float, str]] = []
        self._refused: list[str] = []
        for host in state.hosts.values():
            reason = host_constraints.host_refusal(host, state)
            cost = None if reason else placement.cost(host)
            if cost is None:
                self._refused.append(f"{host.name}: {reason or 'MISSING: what it has or uses'}")
            else:
                self._costs[host.id] = cost
                self._order.append((cost, host.id))
        self._order.sort()

    def still(self, host_id: str, vm: Vm, state: PlanningState) -> Host | None:
        """The host of this id if it takes ``vm``."""
        takes = host_id in self._costs and not _refusal(state.hosts[host_id], vm, state)
        return state.hosts[host_id] if takes else None

    def first(self, vm: Vm, state: PlanningState, refusals: Refusals) -> Host | None:
        """The first host that takes ``vm``; where none does, the reasons of some go into ``refusals``."""
        reasons: list[str] = []
        for _, host_id in self._order:
            host = state.hosts[host_id]
            reason = _refusal(host, vm, state)
            if not reason:
                return host
            if host_id != vm.host:
                reasons.append(f"{host.name}: {reason}")
        reasons += self._refused
        shown = "; ".join(reasons[:_EXAMPLES]) + ("; …" if len(reasons) > _EXAMPLES else "")
        source = state.hosts[vm.host]
        refusals[source.id, vm.id] = Refusal(source, vm, f"no host can take it ({shown or 'there is no other'})")
        return None

    def update(self, host: Host) -> None:
        """Put a host that has filled in its place."""
        before = (self._costs[host.id], host.id)
        del self._order[bisect_left(self._order, before)]
        cost = self._cost(host)
        self._costs[host.id] = before[0] if cost is None else cost
        insort(self._order, (self._costs[host.id], host.id))


def _refusal(host: Host, vm: Vm, state: PlanningState) -> str | None:
    return host_constraints.is_moving(host, state) or host_constraints.pair_refusal(host, vm, state)
