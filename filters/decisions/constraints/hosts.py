"""Host constraints: each returns the reason a host may not take a VM, or None.

They are pure functions.

Those that depend only on the host come first, since most hosts that cannot take one VM can take none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from filters.decisions import capacity, hugepages
from filters.decisions.constraints import affinity, costs, labels, projection
from filters.decisions.constraints.planning_state import PlanningState
from filters.decisions.picture import CURRENT, MEMORY, NETWORK, Host, Vm
from filters.decisions.verdict import Outcome

_MIB = 1 << 20
HostConstraint = Callable[[Host, PlanningState], str | None]
PairConstraint = Callable[[Host, Vm, PlanningState], str | None]


def host_refusal(host: Host, state: PlanningState) -> str | None:
    """The first reason a host takes no VM at all, except ``is_moving``."""
    return next((reason for each in OF_HOSTS if (reason := each(host, state))), None)


def pair_refusal(host: Host, vm: Vm, state: PlanningState) -> str | None:
    """The first reason a host does not take this VM, except ``host_refusal``."""
    return next((reason for each in OF_PAIRS if (reason := each(host, vm, state))), None)


def is_stale(host: Host, _state: PlanningState) -> str | None:
    """Refuse a host without current data: it is not necessarily idle."""
    return None if host.state == CURRENT else f"it is {host.state}"


def is_cordoned(host: Host, _state: PlanningState) -> str | None:
    """Refuse a host with a label that it takes no VM."""
    if labels.is_set(host.labels, labels.MAINTENANCE):
        return "it is in maintenance"
    return "it is cordoned" if labels.is_set(host.labels, labels.CORDONED) else None


def is_hot(host: Host, state: PlanningState) -> str | None:
    """Refuse a host that is hot or suspect, or on which the rule abstains."""
    verdict = state.verdicts[host.id]
    if verdict.outcome in (Outcome.HOT, Outcome.SUSPECT):
        return f"it is {verdict.outcome}: {verdict.reason}"
    return f"the rule abstains: {verdict.reason}" if verdict.outcome is Outcome.ABSTAINED else None


def is_moving(host: Host, state: PlanningState) -> str | None:
    """Refuse a host with the maximum number of concurrent migrations from or to it."""
    moving = state.moving.get(host.id, 0)
    if moving < state.policy.moves_per_host:
        return None
    what = "1 migration from or to it is" if moving == 1 else f"{moving} migrations from or to it are"
    return f"{what} in progress or proposed"


def is_settling(host: Host, state: PlanningState) -> str | None:
    """Refuse a host that a VM left or reached recently: its windows contain the earlier load."""
    ended = state.touched.get(host.id)
    if ended is None:
        return None
    since = max(0.0, state.now - ended)
    if since >= state.policy.settle_seconds:
        return None
    return f"a migration from or to it ended {since:.0f} s ago, settling takes {state.policy.settle_seconds:g} s"


def is_uncertain(host: Host, state: PlanningState) -> str | None:
    """Refuse a host that a VM of unknown load is on its way to."""
    vm = state.unknown.get(host.id)
    return f"MISSING: the load of {vm}, which is migrating to it" if vm is not None else None


def is_source(host: Host, vm: Vm, _state: PlanningState) -> str | None:
    """Refuse the host on which the VM runs."""
    return "the VM runs there" if vm.host == host.id else None


def lacks_room(host: Host, vm: Vm, state: PlanningState) -> str | None:
    """Refuse a host on which the VM would leave less than the headroom of some resource."""
    limit = 1.0 - state.policy.headroom
    for resource in _kept_free(state):
        use = _use_with(vm, host, resource, state)
        if use is None:
            return f"MISSING: {resource} of the host or of the VM"
        if use > limit:
            return f"{resource} would be {use:.3g}, above {limit:.3g}"
    return None


def is_required(resource: str, state: PlanningState) -> bool:
    """Whether a host with this resource MISSING takes nothing: the network counts only where known, unless it is named
    in ``resources``, since many virtual links have no speed."""
    return resource != NETWORK or resource in state.policy.resources


def _kept_free(state: PlanningState) -> dict[str, None]:
    return dict.fromkeys((*state.policy.resources, NETWORK))


def _use_with(vm: Vm, host: Host, resource: str, state: PlanningState) -> float | None:
    """The use of a resource of a host with the VM, as a ratio; None if a required figure is MISSING."""
    part, now = capacity.share(vm, host, resource), capacity.used(host, resource)
    if is_required(resource, state) and (part is None or now is None):
        return None
    return (now or 0.0) + (part or 0.0)


class Shortfall(NamedTuple):
    """Excess of the use of a resource over what a destination may use of it."""

    by: float
    resource: str
    host: str


def nearest(hosts: Iterable[Host], vm: Vm, state: PlanningState) -> str:
    """Words naming the host that lacks least, of hosts that lack only room for a VM; "" if there are none."""
    allowed = (host for host in hosts if host.id != vm.host and not affinity.refusal(host, vm, state))
    lacks = [lack for host in allowed if (lack := _shortfall(host, vm, state)) is not None]
    least = min(lacks, default=None)
    return f"; {least.host} lacks least: {least.by:.3g} of {least.resource}" if least is not None else ""


def limits(state: PlanningState) -> dict[str, float]:
    """How much of each resource a destination may use, as a ratio: what ``lacks_room`` and ``would_be_warm`` allow."""
    found: dict[str, float] = dict.fromkeys(_kept_free(state), 1.0 - state.policy.headroom)
    cool = state.parameters.cool
    for metric in state.parameters.watched if cool is not None else ():
        if metric in projection.PROJECTED and cool is not None:
            found[metric] = min(found.get(metric, 1.0), cool - state.policy.margin)
    return found


def _shortfall(host: Host, vm: Vm, state: PlanningState) -> Shortfall | None:
    """The largest shortfall; None if the host has room, or that is unknown."""
    found: list[Shortfall] = []
    for resource, limit in limits(state).items():
        use = _use_with(vm, host, resource, state)
        if use is None:
            return None
        found.append(Shortfall(use - limit, resource, host.name))
    worst = max(found)
    return worst if worst.by > 0.0 else None


def lacks_memory(host: Host, vm: Vm, state: PlanningState) -> str | None:
    """Refuse a host without enough of the kind of memory that the VM uses: huge pages, in all sizes of the VM's host,
    since the VM may use any of them, or ordinary memory outside huge pages."""
    there, need = hugepages.pools(host), capacity.memory(vm)
    if not hugepages.holds(vm):
        return _lacks_ordinary(host, need, state) if there and MEMORY in state.policy.resources else None
    if there == {}:
        return "it has no huge pages, which the VM's memory requires"
    own = hugepages.pools(state.hosts[vm.host]) if vm.host else there  # a new VM: any size
    if not own or there is None or need is None:
        return f"MISSING: huge pages of the host{'' if own or not vm.host else ' of the VM'}, or the memory of the VM"
    for size in own:
        free = there[size].free if size in there else 0.0
        if free is None:
            return f"MISSING: free huge pages of {size}"
        if free < need:
            return f"the VM needs {need / _MIB:.0f} MiB of huge pages of {size}, {free / _MIB:.0f} MiB are free"
    return None


def _lacks_ordinary(host: Host, need: float | None, state: PlanningState) -> str | None:
    """Refuse a host if ``need`` would leave less than the headroom of its memory outside huge pages."""
    whole, available = capacity.capacity(host, MEMORY), capacity.mean(host.readings, capacity.MEMORY_AVAILABLE)
    huge, limit = hugepages.total(host), 1.0 - state.policy.headroom
    if whole is None or available is None or huge is None or need is None:
        return "MISSING: memory of the host or of the VM"
    ordinary = whole - huge
    used = 1.0 - (available - need) / ordinary if ordinary > 0 else 1.0
    return f"memory use outside huge pages would be {used:.3g}, above {limit:.3g}" if used > limit else None


def would_be_warm(host: Host, vm: Vm, state: PlanningState) -> str | None:
    """Refuse a host that the VM would bring closer than the margin to the rule's cool level, whatever the headroom: it
    would have to be relieved next."""
    cool = state.parameters.cool
    for metric in state.parameters.watched if cool is not None else ():
        use = _use_with(vm, host, metric, state)
        if cool is not None and use is not None and use > cool - state.policy.margin:
            return f"{metric} would be {use:.3g}, less than {state.policy.margin:g} below the cool level {cool:.3g}"
    return None


def would_be_hot(host: Host, vm: Vm, state: PlanningState) -> str | None:
    """Refuse a host that the rule would call hot, or abstain on, with the VM plus the margin of every resource."""
    missing = [each for each in state.parameters.watched if _is_unknown(vm, host, each)]
    if missing:
        return f"MISSING: {missing[0]} of the VM, required by the rule"
    margin, levels = state.policy.margin, dict.fromkeys((*projection.PROJECTED, *state.parameters.watched))
    after = projection.raised(projection.loaded(host, vm), levels, margin)
    verdict = state.rule.judge(after, state.parameters, False)
    if verdict.outcome is Outcome.HOT:
        return f"it would become hot with {margin:g} more: {verdict.reason}"
    return f"the rule abstains: {verdict.reason}" if verdict.outcome is Outcome.ABSTAINED else None


def _is_unknown(vm: Vm, host: Host, metric: str) -> bool:
    """Whether a VM would change this metric of the host by an unknown amount."""
    return metric in projection.PROJECTED and capacity.share(vm, host, metric) is None


#: Constraints that do not change during a plan; ``is_moving`` does, and is checked again for every proposal.
OF_HOSTS: tuple[HostConstraint, ...] = (is_stale, is_cordoned, is_hot, is_settling, is_uncertain)
OF_PAIRS: tuple[PairConstraint, ...] = (
    is_source, affinity.refusal, lacks_memory, lacks_room, would_be_hot, would_be_warm, costs.refusal
)  # fmt: skip
