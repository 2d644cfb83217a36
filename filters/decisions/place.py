"""Place of a new VM: the best hosts and the refusals, with reasons (pure).

The hosts are as they will be once the migrations in progress and the proposed moves are done. A new VM's use is
unknown: it counts as using all of its memory and, unless the request says otherwise, the share of its vCPUs given by
``[decisions.policy] new_vm_cpu``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from acquisition.config.decisions import Policy
from filters.decisions import capacity
from filters.decisions.constraints import affinity
from filters.decisions.constraints import hosts as host_constraints
from filters.decisions.constraints.planning_state import PlanningState
from filters.decisions.picture import VALID, Host, Reading, Vm
from filters.decisions.plan import fit
from filters.decisions.refusal import Refusal
from filters.decisions.verdict import Figure
from filters.decisions.vm_placement import VmPlacement

_NAME = "new VM"


class Wanted(NamedTuple):
    """A VM to be started, with its expected use: ``use``, a ratio of its vCPUs (None: as configured), and ``network``
    in bytes/s (None: unknown)."""

    vcpus: int
    memory: float
    labels: Mapping[str, str] = {}
    use: float | None = None
    network: float | None = None

    def cores(self, policy: Policy) -> float:
        """Expected CPU use in cores."""
        return self.vcpus * (policy.new_vm_cpu if self.use is None else self.use)


class Place(NamedTuple):
    """A host that takes the VM, the reason, and its use without and with the VM."""

    host: Host
    reason: str
    figures: tuple[Figure, ...]


class Placed(NamedTuple):
    """Hosts that take a new VM, best first, and those that do not; if none does, ``remedy`` names what the nearest one
    lacks, or what forbids it."""

    vm: Vm
    places: tuple[Place, ...]
    refusals: tuple[Refusal, ...]
    remedy: str


def place(
    wanted: Wanted, state: PlanningState, placement: VmPlacement, takes: Callable[[Host], bool] = lambda _: True
) -> Placed:
    """The hosts for a new VM, of those selected by ``takes``."""
    vm = _vm(wanted, state)
    found: list[tuple[int, float, str]] = []
    refusals: list[Refusal] = []
    open_hosts: list[Host] = []
    for host in filter(takes, state.hosts.values()):
        general = host_constraints.host_refusal(host, state) or _has_too_few_cpus(host, wanted)
        cost = None if general else placement.cost(host)
        if cost is not None:
            open_hosts.append(host)
        reason = general or host_constraints.pair_refusal(host, vm, state)
        if reason or cost is None:
            refusals.append(Refusal(host, None, reason or "MISSING: its capacity or use"))
        else:
            found.append((len(affinity.unmet(host, vm, state)), cost, host.id))
    hosts = (state.hosts[host_id] for _, _, host_id in sorted(found))
    fits = ((host, *fit(vm, host, state, placement)) for host in hosts)
    places = tuple(Place(host, why + capacity.unchecked(vm, host), figures) for host, why, figures in fits)
    lack = "" if places else host_constraints.nearest(open_hosts, vm, state).removeprefix("; ")
    return Placed(vm, places, tuple(refusals), lack or ("" if places else _nearest(refusals, wanted, vm, state)))


def label_of(text: str) -> tuple[str, str]:
    """Name and value of a label: NAME=VALUE, or NAME for a true one."""
    name, equals, value = text.partition("=")
    return name, value if equals else "true"


def _nearest(refusals: Sequence[Refusal], wanted: Wanted, vm: Vm, state: PlanningState) -> str:
    """All reasons against the host that has the fewest, among equals the one with the most CPUs."""
    found: list[tuple[int, float, str, str]] = []
    for host, _, first in refusals:
        further = _has_too_few_cpus(host, wanted), host_constraints.pair_refusal(host, vm, state)
        reasons = dict.fromkeys(each for each in (first, *further) if each)
        cpus = capacity.mean(host.readings, capacity.CPU_COUNT) or 0.0
        found.append((len(reasons), -cpus, host.name, "; ".join(reasons)))
    if not found:
        return "there are no hosts to choose from"
    _, _, name, words = min(found)
    return f"{name} is nearest: {words}"


def _has_too_few_cpus(host: Host, wanted: Wanted) -> str | None:
    cpus = capacity.mean(host.readings, capacity.CPU_COUNT)
    if cpus is None:
        return "MISSING: its number of CPUs"
    return f"it has {cpus:g} CPUs, fewer than {wanted.vcpus} vCPUs" if cpus < wanted.vcpus else None


def _vm(wanted: Wanted, state: PlanningState) -> Vm:
    """The VM as if already running, on no host."""
    values = {capacity.CPU_CORES: wanted.cores(state.policy), capacity.MEMORY_ASSIGNED: wanted.memory}
    if wanted.network is not None:
        values |= {capacity.RECEIVED: wanted.network, capacity.SENT: wanted.network}
    readings = {name: Reading(name, value, validity=VALID, stale_seconds=0.0) for name, value in values.items()}
    return Vm("", _NAME, "", labels=wanted.labels, readings=readings)
