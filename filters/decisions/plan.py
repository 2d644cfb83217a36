"""Plan of moves: VMs from hot hosts to other hosts, with reasons (pure).

Hot hosts are relieved, the hottest first: VMs are taken in the order of the selection until the rule would no
longer call the host hot without them and those that are leaving it, or it may give no more
(``filters.decisions.relief``). They are placed in the order of the placement, each onto the first host that no
constraint refuses; every proposal counts as done for those after it. A VM for which there is no host makes room for
the next one of its host. What was proposed before and is still right comes first, so that proposals do not change
while nothing else does. Whatever was considered and not proposed is listed with its reason.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

from filters.decisions import capacity, relief
from filters.decisions.constraints import hosts as host_constraints
from filters.decisions.constraints import projection
from filters.decisions.constraints.planning_state import PlanningState
from filters.decisions.method import Method
from filters.decisions.migrations import Migrations
from filters.decisions.picture import Host, Picture, Transit, Vm
from filters.decisions.refusal import Refusal, Refusals
from filters.decisions.relief import Candidate
from filters.decisions.verdict import Figure, Heat, Outcome, Verdict, measured
from filters.decisions.vm_placement import VmPlacement
from filters.decisions.vm_selection.choice import Worth

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
                self._refused.append(f"{host.name}: {reason or 'MISSING: its capacity or use'}")
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
        refusals[source.id, vm.id] = Refusal(source, vm, f"no host can take it ({shown or 'no other host'})")
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


class Move(NamedTuple):
    """One proposal. ``why_host``, ``why_vm``, ``why_destination`` explain it in words, each with its figures."""

    vm: Vm
    source: Host
    destination: Host
    why_host: Verdict
    why_vm: Worth
    why_destination: str
    destination_figures: tuple[Figure, ...]


class Proposals(NamedTuple):
    """Proposals in the order in which they should be carried out."""

    moves: tuple[Move, ...]
    refusals: tuple[Refusal, ...]


def propose(
    picture: Picture,
    heat: Heat,
    method: Method,
    migrations: Migrations,
    now: float | None = None,
    before: Sequence[Move] = (),
) -> Proposals:
    """The plan for one picture. ``now`` is the clock of the log of migrations (by default the picture's), ``before``
    what was proposed last: as long as it is right it is proposed again."""
    state = _begin(picture, heat, method, migrations, picture.now if now is None else now)
    planner = _Planner(state, heat.having(Outcome.HOT), method)
    planner.keep(before)
    planner.go_on()
    return Proposals(tuple(planner.moves), tuple(planner.refusals.values()))


class _Planner:
    """A plan in the making."""

    def __init__(self, state: PlanningState, hot: list[str], method: Method) -> None:
        self.moves: list[Move] = []
        self.refusals: Refusals = {}
        self._state, self._hot, self._method = state, hot, method
        self._destinations = Destinations(state, method.placement)
        self._candidates = {host: self._ask(host) for host in hot}

    def keep(self, before: Sequence[Move]) -> None:
        """Propose again what is still right: the host is hot still, the VM among the first that it should give, and its
        destination takes it."""
        for each in before:
            first = self._candidates.get(each.source.id, [])[: self._method.policy.tries_per_host]
            again = next((one for one in first if one.vm.id == each.vm.id), None)
            if again is None or self._is_full() or not relief.chosen(each.source.id, [again], self._state, {}):
                continue
            destination = self._destinations.still(each.destination.id, again.vm, self._state)
            if destination is not None:
                self._propose(again, destination)

    def go_on(self) -> None:
        """Propose what else hot hosts need."""
        kept = {move.source.id for move in self.moves}
        waiting = [each for host in self._hot for each in self._choose(host, host in kept)]
        for _ in range(self._method.policy.tries_per_host):
            waiting.sort(key=lambda each: self._method.placement.turn(each.vm))
            left, failed = self._method.policy.moves - len(self.moves), set[str]()
            for each in waiting[:left]:
                destination = self._destinations.first(each.vm, self._state, self.refusals)
                if destination is None:
                    failed.add(each.vm.host)
                else:
                    self._propose(each, destination)
            waiting = [each for each in waiting[left:] if each.vm.host not in failed]  # those choose again
            if self._is_full() or not (failed or waiting):
                break
            for host in (each for each in self._hot if each in failed):
                self._candidates[host] = self._ask(host)
                waiting += self._choose(host, False)

    def _ask(self, host: str) -> list[Candidate]:
        return relief.candidates(host, self._state, self._method.selection, self.refusals)

    def _choose(self, host: str, kept: bool) -> list[Candidate]:
        there = {vm.id for vm in self._state.hosts[host].vms}
        open_now = [each for each in self._candidates[host] if each.vm.id in there]
        return relief.chosen(host, open_now, self._state, {} if kept else self.refusals)

    def _propose(self, each: Candidate, destination: Host) -> None:
        self.moves.append(_move(each.vm, each.worth, destination, self._state, self._method))
        self._state = _after(each.vm, destination, self._state)
        self._destinations.update(self._state.hosts[destination.id])

    def _is_full(self) -> bool:
        return len(self.moves) >= self._method.policy.moves


def _begin(picture: Picture, heat: Heat, method: Method, migrations: Migrations, now: float) -> PlanningState:
    """The state with all migrations in progress taken as done at their destinations, reported or seen.

    What is seen alone, a host may say of any VM: it counts against that host, and not against where the VM came from.
    """
    hosts = {host.id: host for host in picture.hosts}
    moving: dict[str, int] = {}
    leaving, unknown = set[tuple[str, str]](), dict[str, str]()
    reported = [Transit(each.vm, each.source, each.destination, "") for each in migrations.in_progress(now)]
    known = {each.vm for each in reported} | migrations.released
    for each in (*reported, *(each for each in picture.transits if each.binds and each.vm not in known)):
        for host_id in {each.source, each.destination} - {each.origin}:
            moving[host_id] = moving.get(host_id, 0) + 1
        if not each.origin:
            leaving.add((each.source, each.vm))
        elif each.source != each.origin:
            continue  # the guest has gone over
        if moving[each.destination] > method.policy.moves_per_host:
            continue  # it takes none anyway, and may be said to receive any number
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
