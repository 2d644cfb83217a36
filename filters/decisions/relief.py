"""Relief of a host: VMs to give, or the reason for none (pure).

A hot host gives VMs until its rule would no longer call it hot and its level is down to what the rule calls cool. If it
would stay hot even without all VMs that may move, none moves: the answer names what would help instead. If a figure
that decides its verdict cannot be projected, its level decides this; it gives one VM and is judged again when that has
moved and the host has settled. A host that stays saturated gives one VM after the other while its guests wait, none of
which takes longer to copy than they have lost. A host in maintenance gives all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from acquisition.config.inputs import DEFAULT_COUNTED
from filters.decisions import capacity
from filters.decisions.constraints import costs, projection
from filters.decisions.constraints import hosts as host_constraints
from filters.decisions.constraints import vms as vm_constraints
from filters.decisions.constraints.planning_state import PlanningState
from filters.decisions.picture import Host, Vm
from filters.decisions.refusal import Refusal, Refusals
from filters.decisions.verdict import Outcome
from filters.decisions.vm_selection.choice import VmSelection, Worth

_COUNTED = DEFAULT_COUNTED.seconds  #: after which k of n contains no earlier value
_EXAMPLES = 3  #: maximum number of VMs named of those that would have to move


class Candidate(NamedTuple):
    """A VM that a hot host may or should give."""

    vm: Vm
    worth: Worth


def worn(host: Host, state: PlanningState) -> str:
    """Reason a host that is only saturated gives VMs: it has been so for long, and its guests together lose more than a
    move costs. "" if it gives none."""
    verdict, policy = state.verdicts[host.id], state.policy
    lasting, waiting = verdict.lasting or 0.0, capacity.waiting(host) or 0.0
    if verdict.outcome is not Outcome.SATURATED or not policy.saturated_seconds or lasting < policy.saturated_seconds:
        return ""
    if waiting < policy.saturated_waiting:
        return ""
    words = verdict.reason.removeprefix("saturated without harm: ")
    return f"{words}; all together {waiting:.2g} s in every second, {_lost(host, state):.0f} s so far"


def _lost(host: Host, state: PlanningState) -> float:
    """Total seconds that the guests of a saturated host have waited: saturation may last as long again."""
    return (state.verdicts[host.id].lasting or 0.0) * (capacity.waiting(host) or 0.0)


def too_dear(vm: Vm, destination: Host, state: PlanningState) -> str:
    """Reason a VM of a saturated host costs more to move than it gains; "" if it does not, or that is unknown."""
    source = state.hosts[vm.host]
    if state.verdicts[source.id].outcome is not Outcome.SATURATED or vm_constraints.is_evacuated(source):
        return ""
    seconds, gain = costs.duration(vm, source, destination, state.policy), _lost(source, state)
    if seconds is None or seconds <= gain:
        return ""
    words = f"copying it to {destination.name} takes at least {seconds:.0f} s, guests have lost {gain:.0f} s"
    return f"{words} so far: a smaller VM or more bandwidth would help"


def candidates(host_id: str, state: PlanningState, selection: VmSelection, refusals: Refusals) -> list[Candidate]:
    """The VMs that a host may give, best first: all if it is in maintenance, those of a hot host if together they
    relieve it. Otherwise the reason is added to ``refusals``."""
    host = state.hosts[host_id]
    held = host_constraints.is_moving(host, state)
    if not vm_constraints.is_evacuated(host):
        held = held or host_constraints.is_settling(host, state) or _is_unforeseeable(host, state)
        held = held or _was_hot_before(host, state)
    found = [] if held else _ranked(host, state, selection, refusals)
    reason = held or _hopeless(_staying(host, state), found, state, refusals)
    if reason:
        refusals.setdefault((host_id, ""), Refusal(host, None, reason))
    return [] if reason else found


def chosen(host_id: str, ranked: list[Candidate], state: PlanningState, refusals: Refusals) -> list[Candidate]:
    """Those of the ``ranked`` VMs of a host that it should give now."""
    host, left = _staying(state.hosts[host_id], state), state.policy.moves_per_host - state.moving.get(host_id, 0)
    if vm_constraints.is_evacuated(host):
        return ranked[: max(0, left)]
    if projection.unprojected(state.verdicts[host_id]):
        return ranked[: 0 if state.moving.get(host_id) else 1]
    if not _asks_relief(host, state):
        if any(place == host_id for place, _ in state.leaving):
            refusals.setdefault((host_id, ""), Refusal(host, None, "VMs already leaving relieve it"))
        return []
    found: list[Candidate] = []
    for each in ranked:
        if len(found) >= left or not _asks_relief(host, state):
            break
        found.append(each)
        host = projection.without_vm(host, each.vm)
    return found


def _is_unforeseeable(host: Host, state: PlanningState) -> str:
    """Reason a host gives no further VM until it has been measured without those leaving it."""
    unknown = projection.unprojected(state.verdicts[host.id])
    if not unknown or not state.moving.get(host.id):
        return ""
    return f"what its next move does for {', '.join(unknown)} is known when the migration in progress has ended"


def _was_hot_before(host: Host, state: PlanningState) -> str:
    """Reason a hot host that has just given a VM gives no other: its current averages are within its limits."""
    since, verdict = state.now - state.touched.get(host.id, -math.inf), state.verdicts[host.id]
    if (
        since >= state.policy.settle_seconds + _COUNTED
        or verdict.outcome is not Outcome.HOT
        or verdict.excess is None
        or verdict.excess > 0.0
    ):
        return ""
    return f"a migration from or to it ended {since:.0f} s ago, and only values of before still call it hot"


def _staying(host: Host, state: PlanningState) -> Host:
    """The host without the VMs leaving it."""
    for vm in host.vms:
        if (host.id, vm.id) in state.leaving:
            host = projection.without_vm(host, vm)
    return host


def _ranked(host: Host, state: PlanningState, selection: VmSelection, refusals: Refusals) -> list[Candidate]:
    """The VMs of a host that may be moved, best first, among equals the one that is copied fastest."""
    found: list[tuple[tuple[float, ...], str, Candidate]] = []
    resource = vm_constraints.in_need(host, state)
    for vm in host.vms:
        if vm.host != host.id or (host.id, vm.id) in refusals:
            continue  # not here yet, or tried before
        worth = selection.worth(vm, host, resource)
        reason = vm_constraints.refusal(vm, state) or ("" if worth.key is not None else worth.reason)
        if reason or worth.key is None:
            refusals[host.id, vm.id] = Refusal(host, vm, reason)
        else:
            key = (*worth.key, -(capacity.memory(vm) or 0.0))
            found.append((key, vm.id, Candidate(vm, worth)))
    return [each for _, _, each in sorted(found, key=lambda each: each[:2], reverse=True)]


def _remains(host: Host, state: PlanningState) -> bool:
    """Whether a projected host keeps its current outcome, by a part that has it now."""
    now = state.verdicts[host.id]
    after = state.rule.judge(host, state.parameters, now.outcome is Outcome.HOT)
    parts = zip(now.parts, after.parts, strict=True) if now.parts else ((now, after),)
    return after.outcome is now.outcome and any(one.outcome is other.outcome is now.outcome for one, other in parts)


def _asks_relief(host: Host, state: PlanningState) -> bool:
    """Whether a projected host is still hot, or above the level to which it is relieved."""
    return _remains(host, state) or any(_exceeds(host, each, state) for each in vm_constraints.needed(host, state))


def _exceeds(host: Host, resource: str, state: PlanningState) -> bool:
    return (vm_constraints.excess(host, resource, state) or 0.0) > 0.0


def _is_unrelieved(host: Host, resource: str, state: PlanningState) -> bool:
    """Whether a projected host is not relieved; for a hot one that cannot be projected, its level decides."""
    verdict = state.verdicts[host.id]
    if verdict.outcome is Outcome.HOT and projection.unprojected(verdict):
        return _exceeds(host, resource, state)
    return _remains(host, state)


def _without(host: Host, vms: Iterable[Vm]) -> Host:
    for vm in vms:
        host = projection.loaded(host, vm, -1.0)
    return host


def _hopeless(host: Host, ranked: list[Candidate], state: PlanningState, refusals: Refusals) -> str:
    """Reason no move helps a host, and what would; "" if moves help, or no level would end its outcome."""
    if vm_constraints.is_evacuated(host) or not _remains(host, state):
        return ""  # it gives all; or the VMs leaving it relieve it
    if not any(vm.host == host.id for vm in host.vms):
        return "it has no VMs: only reducing its own load would help"
    metric, after = vm_constraints.in_need(host, state), _without(host, (each.vm for each in ranked))
    if ranked and (not _is_unrelieved(after, metric, state) or _is_unrelieved(projection.idle(host), metric, state)):
        return ""
    if not ranked and state.verdicts[host.id].outcome is Outcome.SATURATED:
        return ""  # each VM has a refusal of its own
    words = "none of its VMs can be moved now"
    if ranked:
        words = f"moving all of its movable VMs ({len(ranked)}) would not help, {metric} would be "
        words += f"{capacity.used(after, metric) or 0.0:.3g}"
    return f"{words}: {_remedy(host, {each.vm.id for each in ranked}, metric, state, refusals)}"


def _remedy(host: Host, may_move: set[str], metric: str, state: PlanningState, refusals: Refusals) -> str:
    """Remedy for a host that moving its VMs in ``may_move`` does not relieve."""
    there = [vm for vm in host.vms if vm.host == host.id]
    parts = {vm.id: projection.freed(vm, host, metric) for vm in there}
    unknown = sum(part is None for part in parts.values())
    own = capacity.used(_without(host, there), metric)
    if _is_unrelieved(_without(host, there), metric, state):
        if unknown:
            return f"the share of {unknown} of its VMs in {metric} is unknown"
        return f"{own or 0.0:.3g} of its {metric} is not caused by VMs and would have to be reduced"
    after, needed = _without(host, (vm for vm in there if vm.id in may_move)), list[str]()
    for vm in sorted((vm for vm in there if vm.id not in may_move), key=lambda vm: -(parts[vm.id] or 0.0)):
        after = _without(after, [vm])
        needed.append(f"{vm.name} ({refusals[host.id, vm.id].reason})" if (host.id, vm.id) in refusals else vm.name)
        if not _is_unrelieved(after, metric, state):
            break
    shown = ", ".join(needed[:_EXAMPLES]) + (" …" if len(needed) > _EXAMPLES else "")
    return f"moving {shown} {'may' if _remains(after, state) else 'would'} help"
