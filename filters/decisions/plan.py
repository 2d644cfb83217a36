"""Proposals: which VM moves from which hot host to which other, and why (pure).

Hot hosts are relieved, the hottest first: VMs are taken in the order of the selection until the rule would no
longer call the host hot without them and those that are leaving it, or it may give no more. They are placed in the
order of the placement, each onto the first host that no constraint refuses; every proposal counts as done for those
after it. A VM for which there is no host makes room for the next one of its host. Whatever was considered and not
proposed is told with its reason.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import NamedTuple

from filters.decisions import capacity
from filters.decisions.constraints import hosts as host_constraints
from filters.decisions.constraints import projection
from filters.decisions.constraints import vms as vm_constraints
from filters.decisions.constraints.planning_state import PlanningState
from filters.decisions.heat import Heat
from filters.decisions.method import Method
from filters.decisions.migrations import Migrations
from filters.decisions.picture import Host, Picture, Transit, Vm
from filters.decisions.verdict import Figure, Outcome, Verdict, measured
from filters.decisions.vm_placement import VmPlacement
from filters.decisions.vm_selection.choice import Worth

_EXAMPLES = 3  #: reasons that are told of a VM for which there is no host


class Move(NamedTuple):
    """One proposal. ``why_host``, ``why_vm``, ``why_destination`` explain it in words, each with its figures."""

    vm: Vm
    source: Host
    destination: Host
    why_host: Verdict
    why_vm: Worth
    why_destination: str
    destination_figures: tuple[Figure, ...]


class Refusal(NamedTuple):
    """What was considered and not proposed: a host (``vm`` None) or a VM of it."""

    host: Host
    vm: Vm | None
    reason: str


class Plan(NamedTuple):
    """Proposals in the order in which they should be carried out."""

    moves: tuple[Move, ...]
    refusals: tuple[Refusal, ...]


Refusals = dict[tuple[str, str], Refusal]  #: by host id and VM id ("" for the host itself)


class _Chosen(NamedTuple):
    """A VM that a hot host should give away."""

    vm: Vm
    worth: Worth


def propose(picture: Picture, heat: Heat, method: Method, migrations: Migrations, now: float | None = None) -> Plan:
    """The plan for one picture. ``now`` is the clock of the log of migrations (by default the picture's)."""
    state = _begin(picture, heat, method, migrations, picture.now if now is None else now)
    ranked = _Destinations(state, method.placement)
    moves: list[Move] = []
    refusals: Refusals = {}
    open_hosts, waiting = heat.having(Outcome.HOT), list[_Chosen]()
    for _ in range(method.policy.tries_per_host):
        waiting += [each for host in open_hosts for each in _choose(host, state, method, refusals)]
        waiting.sort(key=lambda each: method.placement.turn(each.vm))
        left, failed = method.policy.moves - len(moves), set[str]()
        for vm, worth in waiting[:left]:
            destination = ranked.first(vm, state, refusals)
            if destination is None:
                failed.add(vm.host)
                continue
            moves.append(_move(vm, worth, destination, state, method))
            state = _after(vm, destination, state)
            ranked.update(state.hosts[destination.id])
        waiting = [each for each in waiting[left:] if each.vm.host not in failed]  # those choose anew
        open_hosts = [host for host in heat.having(Outcome.HOT) if host in failed]
        if not (open_hosts or waiting) or len(moves) >= method.policy.moves:
            break
    return Plan(tuple(moves), tuple(refusals.values()))


def _begin(picture: Picture, heat: Heat, method: Method, migrations: Migrations, now: float) -> PlanningState:
    """The state with all migrations in progress taken as done at their destinations, reported or seen."""
    hosts = {host.id: host for host in picture.hosts}
    moving: dict[str, int] = {}
    leaving, unknown = set[tuple[str, str]](), dict[str, str]()
    reported = [Transit(each.vm, each.source, each.destination) for each in migrations.in_progress(now)]
    known = {each.vm for each in reported}
    for each in (*reported, *(each for each in picture.transits if each.vm not in known)):
        for host_id in {each.source, each.destination}:
            moving[host_id] = moving.get(host_id, 0) + 1
        leaving.add((each.source, each.vm))
        source, destination = hosts.get(each.source), hosts.get(each.destination)
        if destination is None or destination is source or _has(destination, each.vm):
            continue
        vm = next((vm for vm in source.vms if vm.id == each.vm), None) if source is not None else None
        if vm is not None:
            hosts[destination.id] = projection.with_vm(destination, vm)
        if vm is None or any(capacity.share(vm, destination, part) is None for part in method.policy.resources):
            unknown[destination.id] = vm.name if vm is not None else each.vm
    return PlanningState(
        hosts, heat.verdicts, moving, frozenset(leaving), unknown, migrations.touched(), migrations,
        method.rule, method.parameters, method.policy, now,
    )  # fmt: skip


def _has(host: Host, vm: str) -> bool:
    """Whether a VM has its place on a host: what it takes there is measured."""
    return any(each.id == vm and each.host == host.id for each in host.vms)


def _after(vm: Vm, destination: Host, state: PlanningState) -> PlanningState:
    """The state with a proposal taken as done; the VM stays listed at its source, as it is until it has moved."""
    source = state.hosts[vm.host]
    hosts = {
        **state.hosts,
        source.id: projection.without_vm(source, vm),
        destination.id: projection.with_vm(destination, vm),
    }
    moving = dict(state.moving)
    for host_id in (source.id, destination.id):
        moving[host_id] = moving.get(host_id, 0) + 1
    return state._replace(hosts=hosts, moving=moving)


def _choose(host_id: str, state: PlanningState, method: Method, refusals: Refusals) -> list[_Chosen]:
    """VMs that a hot host should give away now; why not, into ``refusals``."""
    host = state.hosts[host_id]
    held = host_constraints.is_moving(host, state) or host_constraints.is_settling(host, state)
    ranked = [] if held else _ranked(host, state, method, refusals)
    if not ranked:
        reason = held or ("none of its VMs may be moved" if host.vms else "it has no VMs")
        refusals.setdefault((host.id, ""), Refusal(host, None, reason))
    left = state.policy.moves_per_host - state.moving.get(host.id, 0)
    chosen: list[_Chosen] = []
    for vm in host.vms:
        if (host.id, vm.id) in state.leaving:
            host = projection.without_vm(host, vm)
    for each in ranked:
        if len(chosen) >= left or method.rule.judge(host, method.parameters, True).outcome is not Outcome.HOT:
            break
        chosen.append(each)
        host = projection.without_vm(host, each.vm)
    if ranked and not chosen and any(place == host_id for place, _ in state.leaving):
        refusals.setdefault((host_id, ""), Refusal(host, None, "those that are leaving it relieve it"))
    return chosen


def _ranked(host: Host, state: PlanningState, method: Method, refusals: Refusals) -> list[_Chosen]:
    """The VMs of a host that may be moved, the best first."""
    found: list[tuple[tuple[float, ...], str, _Chosen]] = []
    for vm in host.vms:
        if vm.host != host.id or (host.id, vm.id) in refusals:
            continue  # not here yet, or tried before
        worth = method.selection.worth(vm, host)
        reason = vm_constraints.refusal(vm, state) or ("" if worth.key is not None else worth.reason)
        if reason or worth.key is None:
            refusals[host.id, vm.id] = Refusal(host, vm, reason)
        else:
            found.append((worth.key, vm.id, _Chosen(vm, worth)))
    return [chosen for _, _, chosen in sorted(found, key=lambda each: each[:2], reverse=True)]


class _Destinations:
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

    def first(self, vm: Vm, state: PlanningState, refusals: Refusals) -> Host | None:
        """The first host that takes ``vm``; where none does, the reasons of some go into ``refusals``."""
        reasons: list[str] = []
        for _, host_id in self._order:
            host = state.hosts[host_id]
            reason = host_constraints.is_moving(host, state) or host_constraints.pair_refusal(host, vm, state)
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


def _move(vm: Vm, worth: Worth, destination: Host, state: PlanningState, method: Method) -> Move:
    figures: list[Figure] = []
    after = projection.with_vm(destination, vm)
    for resource in method.policy.resources:
        reading = destination.readings[resource]
        figures.append(measured(f"{resource} now", capacity.used(destination, resource), reading))
        figures.append(Figure(f"{resource} with the VM", capacity.used(after, resource), reading.unit))
    figures.append(Figure("headroom", method.policy.headroom, "ratio"))
    why = f"{method.placement.title}, with a headroom of {method.policy.headroom:g}"
    source = state.hosts[vm.host]
    return Move(vm, source, destination, state.verdicts[source.id], worth, why, tuple(figures))
