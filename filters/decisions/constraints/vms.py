"""VM constraints: each returns the reason a VM may not move, or None (pure)."""

from __future__ import annotations

from collections.abc import Callable

from filters.decisions import capacity
from filters.decisions.constraints import labels, projection
from filters.decisions.constraints.planning_state import PlanningState
from filters.decisions.migrations import FAILED, FINISHED, STARTED
from filters.decisions.picture import CPU, CURRENT, MEMORY, NETWORK, Host, Vm

Constraint = Callable[[Vm, PlanningState], str | None]
_ENDED = {
    FINISHED: "it migrated",
    FAILED: "its migration failed",
    STARTED: "its migration timed out without a reported end",
}
_WORDS = {CPU: "CPU", MEMORY: "memory", NETWORK: "network"}


def refusal(vm: Vm, state: PlanningState) -> str | None:
    """The first reason not to move a VM."""
    return next((reason for each in CONSTRAINTS if (reason := each(vm, state))), None)


def is_unseen(vm: Vm, _state: PlanningState) -> str | None:
    """Refuse a VM without current figures."""
    return None if vm.state == CURRENT else f"it is {vm.state}"


def is_pinned(vm: Vm, _state: PlanningState) -> str | None:
    """Refuse a VM pinned by its label."""
    return "it is pinned" if labels.is_set(vm.labels, labels.PINNED) else None


def is_local(vm: Vm, _state: PlanningState) -> str | None:
    """Refuse a VM with an id that no other host would know."""
    return "its id is valid on its host only (label local)" if labels.is_set(vm.labels, labels.LOCAL) else None


def is_migrating(vm: Vm, state: PlanningState) -> str | None:
    """Refuse a migrating VM: two hosts report it, or a scheduler has reported a start."""
    newest = state.migrations.of(vm.id)
    if newest is not None and state.migrations.lasts(vm.id, state.now):
        there = state.hosts.get(newest.destination)
        return f"it is migrating to {there.name if there is not None else newest.destination}"
    return "it is migrating" if vm.migrating and vm.id not in state.migrations.released else None


def is_young(vm: Vm, state: PlanningState) -> str | None:
    """Refuse a VM with a window that is not full, or not known to be."""
    least = state.policy.young_seconds
    if vm.observed_seconds is None:
        return "MISSING: start of its observation on this host" if least else None
    if vm.observed_seconds < least:
        return f"WARMING: observed for {vm.observed_seconds:.0f} of {least:g} s"
    reading = vm.readings.get(capacity.CPU_CORES)
    if reading is not None and reading.inputs is not None and reading.inputs.warming:
        return f"WARMING: {reading.inputs.valid} of {reading.inputs.window} values of {reading.metric}"
    return None


def is_cooling(vm: Vm, state: PlanningState) -> str | None:
    """Refuse a VM that moved recently, successfully or not."""
    if is_evacuated(state.hosts[vm.host]):
        return None  # it does not come back
    newest, rested = state.migrations.of(vm.id), state.migrations.rested(vm.id, state.now)
    if newest is None or rested is None or rested >= state.policy.cool_down_seconds:
        return None
    what = _ENDED[newest.outcome]
    return f"{what} {rested:.0f} s ago, the cool-down is {state.policy.cool_down_seconds:g} s"


def is_of_unknown_size(vm: Vm, _state: PlanningState) -> str | None:
    """Refuse a VM of unknown size: any host might be too small, whatever it uses now."""
    return f"MISSING: its size ({capacity.memory_metric(vm)})" if capacity.memory(vm) is None else None


def is_too_small(vm: Vm, state: PlanningState) -> str | None:
    """Refuse a VM that would free too little, or an unknown amount."""
    host = state.hosts[vm.host]
    if is_evacuated(host):
        return None
    resource = in_need(host, state)
    part = projection.freed(vm, host, resource)
    if part is None:
        missing = f"{capacity.CPU_CORES} of it or {capacity.CPU_COUNT} of its host"
        return f"MISSING: {missing if resource == CPU else f'{resource} of it or of its host'}"
    least = state.policy.least_gain
    return f"it has {part:.2%} of the host's {_WORDS[resource]}, less than {least:.2%}" if part < least else None


def needed(host: Host, state: PlanningState) -> tuple[str, ...]:
    """The resources to free on a host: those that decide its verdict, or else those that the rule watches."""
    named = projection.named(state.verdicts[host.id]) or state.parameters.watched
    return tuple(dict.fromkeys(map(projection.resource_of, named))) or (CPU,)


def excess(host: Host, resource: str, state: PlanningState) -> float | None:
    """Excess of a host over the level of a resource to which it is relieved; None: the rule defines no level."""
    level, used = state.parameters.cool_of(resource), capacity.used(host, resource)
    return used - level if level is not None and used is not None else None


def in_need(host: Host, state: PlanningState) -> str:
    """The resource to free that exceeds its level most."""
    return max(needed(host, state), key=lambda resource: excess(host, resource, state) or 0.0)


def is_evacuated(host: Host) -> bool:
    """Whether all VMs have to leave a host."""
    return labels.is_set(host.labels, labels.MAINTENANCE)


CONSTRAINTS: tuple[Constraint, ...] = (
    is_unseen, is_pinned, is_local, is_migrating, is_young, is_cooling, is_too_small, is_of_unknown_size,
)  # fmt: skip
