"""Affinity and anti-affinity of VMs, to other VMs and to groups of hosts (pure).

Each is a label (``labels``). As a rule it refuses a host; as a wish (prefix ``prefer_``) it makes a host cost more:
hosts that meet fewer wishes come after all others, like the "should" rules of VMware DRS, and no wish keeps a hot host
from being relieved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from filters.decisions.constraints import labels
from filters.decisions.constraints.planning_state import PlanningState
from filters.decisions.picture import Host, Vm

_Rule = Callable[[Host, Vm, str, PlanningState], str | None]


def refusal(host: Host, vm: Vm, state: PlanningState) -> str | None:
    """Reason a label of ``vm`` forbids this host, or None."""
    return next(_broken(host, vm, "", state), None)


def unmet(host: Host, vm: Vm, state: PlanningState) -> tuple[str, ...]:
    """The wishes of ``vm`` that this host does not meet."""
    return tuple(_broken(host, vm, labels.PREFER, state))


def has_wishes(vm: Vm) -> bool:
    """Whether ``vm`` has wishes, by which hosts that can take it may differ."""
    return any(labels.PREFER + name in vm.labels for name in _RULES)


def _broken(host: Host, vm: Vm, prefix: str, state: PlanningState) -> Iterator[str]:
    for name, rule in _RULES.items() if vm.labels else ():
        if vm.labels.get(prefix + name, "").strip() and (reason := rule(host, vm, prefix + name, state)):
            yield reason


def _is_other_group(host: Host, vm: Vm, label: str, _state: PlanningState) -> str | None:
    group = vm.labels[label].strip()
    return None if group in labels.names(host.labels, labels.GROUPS) else f"it is not in group {group}"


def _is_avoided_group(host: Host, vm: Vm, label: str, _state: PlanningState) -> str | None:
    avoided = labels.names(vm.labels, label) & labels.names(host.labels, labels.GROUPS)
    return f"it is in group {min(avoided)}, which the VM avoids" if avoided else None


def _is_elsewhere(host: Host, vm: Vm, label: str, state: PlanningState) -> str | None:
    """VMs on a host in maintenance do not bind others: they must leave it, and follow the first that does."""
    if state.mates.on(host.id, vm, label):
        return None
    for host_id in state.mates.hosts_of(vm, label):
        there = state.hosts[host_id]
        mate = state.mates.on(host_id, vm, label)
        if mate and not labels.is_set(there.labels, labels.MAINTENANCE):
            return f"{mate.name} of affinity {vm.labels[label]} is on {there.name}"
    return None


def _has_rival(host: Host, vm: Vm, label: str, state: PlanningState) -> str | None:
    rival = state.mates.on(host.id, vm, label)
    return f"{rival.name} of anti-affinity {vm.labels[label]} is there" if rival else None


_RULES: dict[str, _Rule] = {
    labels.GROUP: _is_other_group,
    labels.NOT_GROUP: _is_avoided_group,
    labels.AFFINITY: _is_elsewhere,
    labels.ANTI_AFFINITY: _has_rival,
}
