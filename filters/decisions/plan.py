"""Plan of moves: VMs from hot hosts to other hosts, with reasons (pure).

Hot hosts are relieved, the hottest first: VMs are taken in the order of the selection until the rule would no
longer call the host hot without them and those already leaving, or it may give no more
(``filters.decisions.relief``). They are placed in the order of the placement, each on the first host that no
constraint refuses; every proposal counts as done for later ones. If a VM fits no host, the next one of its host is
tried. Previous proposals that are still right come first, so that proposals do not change while nothing else does.
Everything considered and not proposed is listed with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from filters.decisions import capacity, relief
from filters.decisions.constraints import affinity, costs, projection
from filters.decisions.constraints import vms as vm_constraints
from filters.decisions.constraints.costs import Cost
from filters.decisions.constraints.mates import Mates
from filters.decisions.constraints.planning_state import PlanningState
from filters.decisions.method import Method
from filters.decisions.migrations import Migrations
from filters.decisions.picture import CURRENT, Host, Picture, Transit, Vm
from filters.decisions.refusal import Refusal, Refusals
from filters.decisions.relief import Candidate
from filters.decisions.verdict import Figure, Heat, Outcome, Verdict, measured
from filters.decisions.vm_placement import VmPlacement
from filters.decisions.vm_placement.destinations import Destinations
from filters.decisions.vm_selection.choice import Worth

RELIEF, SATURATED, MAINTENANCE = "hot", "saturated", "maintenance"  #: causes of moves
_EXAMPLES = 3  #: maximum number of VMs named of those that stay on a host in maintenance


class Move(NamedTuple):
    """One proposal. ``why_host``, ``why_vm``, ``why_destination`` and ``cost`` explain it in words, each with its
    figures; ``cause``: why the host gives VMs."""

    vm: Vm
    source: Host
    destination: Host
    why_host: Verdict
    why_vm: Worth
    why_destination: str
    destination_figures: tuple[Figure, ...]
    cost: Cost
    cause: str = RELIEF


class Proposals(NamedTuple):
    """Proposals in the order in which to carry them out; ``state`` has all of them applied."""

    moves: tuple[Move, ...]
    refusals: tuple[Refusal, ...]
    state: PlanningState


def propose(
    picture: Picture,
    heat: Heat,
    method: Method,
    migrations: Migrations,
    now: float | None = None,
    before: Sequence[Move] = (),
) -> Proposals:
    """The plan for one picture. ``now``: clock of the log of migrations (by default the picture's). ``before``: the
    last proposals, repeated as long as they are right."""
    state = _begin(picture, heat, method, migrations, picture.now if now is None else now)
    worn = [key for key in heat.having(Outcome.SATURATED) if relief.worn(state.hosts[key], state)]
    emptied = (host.id for host in picture.hosts if vm_constraints.is_evacuated(host))
    planner = _Planner(state, list(dict.fromkeys((*heat.having(Outcome.HOT), *worn, *emptied))), method)
    planner.keep(before)
    planner.go_on()
    planner.conclude()
    return Proposals(tuple(planner.moves), tuple(planner.refusals.values()), planner.state)


class _Planner:
    """Plan under construction."""

    def __init__(self, state: PlanningState, sources: list[str], method: Method) -> None:
        self.moves: list[Move] = []
        self.refusals: Refusals = {}
        self.state, self._sources, self._method = state, sources, method
        self._most = method.policy.moves - state.under_way
        self._destinations = Destinations(state, method.placement)
        self._candidates = {host: self._ask(host) for host in sources}

    def keep(self, before: Sequence[Move]) -> None:
        """Repeat proposals that are still right: the host is still hot, the VM is among the first that it should give,
        and its destination takes it."""
        for each in (one for one in before if one.source.id in self._candidates):
            first = self._candidates[each.source.id][: self._tries(each.source.id)]
            again = next((one for one in first if one.vm.id == each.vm.id), None)
            if again is None or self._is_full() or not relief.chosen(each.source.id, [again], self.state, {}):
                continue
            destination = self._destinations.still(each.destination.id, again.vm, self.state)
            if destination is not None and not relief.too_dear(again.vm, destination, self.state):
                self._propose(again, destination)

    def go_on(self) -> None:
        """Propose the other moves that hosts need."""
        kept, tries = {move.source.id for move in self.moves}, Counter[str]()
        waiting = [each for host in self._sources for each in self._choose(host, host in kept)]
        while waiting and not self._is_full():
            waiting.sort(key=self._turn)
            left, failed = self._most - len(self.moves), set[str]()
            for each in waiting[:left]:
                found = self._destinations.first(each.vm, self.state)
                reason = relief.too_dear(each.vm, found, self.state) if isinstance(found, Host) else found
                if isinstance(found, Host) and not reason:
                    self._propose(each, found)
                    continue
                failed.add(each.vm.host)
                source = self.state.hosts[each.vm.host]
                self.refusals[source.id, each.vm.id] = Refusal(source, each.vm, reason)
            tries.update(failed)
            waiting = [each for each in waiting[left:] if each.vm.host not in failed]  # failed hosts choose again
            for host in (each for each in self._sources if each in failed and tries[each] < self._tries(each)):
                self._candidates[host] = self._ask(host)
                waiting += self._choose(host, False)
        for each in waiting:
            source, words = self.state.hosts[each.vm.host], "as many migrations as may be at a time"
            reason = f"{words} ({self._method.policy.moves}) are in progress or proposed"
            self.refusals.setdefault((source.id, ""), Refusal(source, None, reason))

    def conclude(self) -> None:
        """Report for hosts in maintenance which VMs stay for now, or that none are left."""
        leaving = {move.source.id for move in self.moves}
        for host in map(self.state.hosts.__getitem__, self._sources):
            stay = [each for (host_id, vm), each in self.refusals.items() if vm and host_id == host.id]
            words = _stay(stay) if stay else "" if host.vms or host.id in leaving else _is_empty(host)
            if words and vm_constraints.is_evacuated(host):
                self.refusals.setdefault((host.id, ""), Refusal(host, None, f"it is in maintenance{words}"))

    def _turn(self, each: Candidate) -> tuple[bool, float]:
        """Sort key: hot hosts are relieved before others are emptied."""
        calm = self.state.verdicts[each.vm.host].outcome is not Outcome.HOT
        return calm, self._method.placement.turn(each.vm)

    def _tries(self, host: str) -> int:
        """Number of VMs of a host to find a destination for: all if it is to be emptied."""
        there = self.state.hosts[host]
        return len(there.vms) if vm_constraints.is_evacuated(there) else self._method.policy.tries_per_host

    def _ask(self, host: str) -> list[Candidate]:
        return relief.candidates(host, self.state, self._method.selection, self.refusals)

    def _choose(self, host: str, kept: bool) -> list[Candidate]:
        there = {vm.id for vm in self.state.hosts[host].vms}
        open_now = [each for each in self._candidates[host] if each.vm.id in there]
        return relief.chosen(host, open_now, self.state, {} if kept else self.refusals)

    def _propose(self, each: Candidate, destination: Host) -> None:
        self.moves.append(_move(each.vm, each.worth, destination, self.state, self._method))
        self.state = after(each.vm, destination, self.state)
        self._destinations.update(self.state.hosts[destination.id])

    def _is_full(self) -> bool:
        return len(self.moves) >= self._most


def _stay(refused: Sequence[Refusal]) -> str:
    shown = ", ".join(each.vm.name for each in refused[:_EXAMPLES] if each.vm is not None)
    return f", {len(refused)} of its VMs cannot leave now: {shown}{', …' * (len(refused) > _EXAMPLES)}"


def _is_empty(host: Host) -> str:
    if host.state == CURRENT:
        return " and reports no VMs"
    return f" and {host.state}: whether VMs are left is unknown"


def _begin(picture: Picture, heat: Heat, method: Method, migrations: Migrations, now: float) -> PlanningState:
    """The state with all migrations in progress, reported or seen, applied to their destinations.

    Any host may report any VM, so one that is only seen counts against that host, not against the VM's origin.
    """
    hosts = {host.id: host for host in picture.hosts}
    moving: dict[str, int] = {}
    leaving, unknown, under_way = set[tuple[str, str]](), dict[str, str](), set[str]()
    reported = [Transit(each.vm, each.source, each.destination, "") for each in migrations.in_progress(now)]
    known = {each.vm for each in reported} | migrations.released
    for each in (*reported, *(each for each in picture.transits if each.binds and each.vm not in known)):
        ends = {each.source, each.destination} - {each.origin}
        for host_id in ends:
            moving[host_id] = moving.get(host_id, 0) + 1
        if not each.origin or all(moving[host_id] <= method.policy.moves_per_host for host_id in ends):
            under_way.add(each.vm)  # one host may claim to receive any number of VMs
        if not each.origin:
            leaving.add((each.source, each.vm))
        elif each.source != each.origin:
            continue  # the guest runs on the destination already
        if moving[each.destination] > method.policy.moves_per_host:
            continue  # it takes no VM anyway, and may appear to receive any number
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
        method.rule, method.parameters, method.policy, now, Mates(hosts), len(under_way),
    )  # fmt: skip


def _has(host: Host, vm: str) -> bool:
    """Whether a VM is on a host, so that its use there is measured."""
    return any(each.id == vm and each.host == host.id for each in host.vms)


def after(vm: Vm, destination: Host, state: PlanningState) -> PlanningState:
    """The state with a proposal applied; the VM stays listed at its source until it has moved."""
    source = state.hosts[vm.host]
    hosts = {
        **state.hosts,
        source.id: projection.without_vm(source, vm),
        destination.id: projection.with_vm(destination, vm),
    }
    moving = dict(state.moving)
    for host_id in (source.id, destination.id):
        moving[host_id] = moving.get(host_id, 0) + 1
    mates = state.mates.moved(vm, source.id, destination.id)
    return state._replace(hosts=hosts, moving=moving, mates=mates)


def _move(vm: Vm, worth: Worth, destination: Host, state: PlanningState, method: Method) -> Move:
    source, verdict = state.hosts[vm.host], state.verdicts[vm.host]
    cause = SATURATED if verdict.outcome is Outcome.SATURATED else RELIEF
    cause = MAINTENANCE if vm_constraints.is_evacuated(source) else cause
    resource = vm_constraints.in_need(source, state)
    excess = vm_constraints.excess(source, resource, state) or 0.0
    lacking = excess if cause is RELIEF and excess > 0.0 else None
    if cause is SATURATED:
        verdict = verdict._replace(reason=relief.worn(source, state) or verdict.reason)
    if cause is MAINTENANCE:
        left, words = len(source.vms), "it is in maintenance, VMs to move"
        verdict = Verdict(verdict.outcome, f"{words}: {left}", (Figure("VMs", left, "count"),))
    why, figures = fit(vm, destination, state, method.placement)
    price = costs.cost(vm, source, destination, resource, lacking, method.policy)
    return Move(vm, source, destination, verdict, worth, why, figures, price, cause)


def fit(vm: Vm, destination: Host, state: PlanningState, placement: VmPlacement) -> tuple[str, tuple[Figure, ...]]:
    """Reason a VM goes to a host, and the use of the host without and with it."""
    figures: list[Figure] = []
    loaded = projection.with_vm(destination, vm)
    for resource in state.policy.resources:
        reading = destination.readings[resource]
        figures.append(measured(f"{resource} now", capacity.used(destination, resource), reading))
        figures.append(Figure(f"{resource} with the VM", capacity.used(loaded, resource), reading.unit))
    figures.append(Figure("headroom", state.policy.headroom, "ratio"))
    why = f"{placement.title}, with a headroom of {state.policy.headroom:g}"
    unmet = affinity.unmet(destination, vm, state)
    return f"{why}; not as preferred: {', '.join(unmet)}" if unmet else why, tuple(figures)
