"""Highest volume per footprint: the most load for the least to copy.

    volume = 1 / ((1 - cpu) (1 - net) (1 - mem))

Wood and others, Sandpiper, NSDI 2007: VMs are tried in decreasing order of volume / size, size being the
RAM. cpu, net and mem are ratios of the capacity of the host; a fully used resource counts as 0.1% free, so
that the volume stays finite.
"""

from __future__ import annotations

from collections.abc import Iterable

from filters.decisions import capacity
from filters.decisions.picture import CPU, MEMORY, NETWORK, Host, Reading, Vm
from filters.decisions.verdict import Figure, measured
from filters.decisions.vm_selection.choice import VmSelection, Worth

RESOURCES = (CPU, NETWORK, MEMORY)
_LEAST_FREE = 0.001


def volume(used: Iterable[float]) -> float:
    """The product of 1 / (1 - u) over ratios; 1 if nothing is used."""
    product = 1.0
    for ratio in used:
        product /= max(_LEAST_FREE, 1.0 - max(0.0, ratio))
    return product


def volume_of(subject: Host | Vm) -> float | None:
    """The volume of a host or VM from its readings; None if one of them is missing."""
    used = [capacity.mean(subject.readings, resource) for resource in RESOURCES]
    known = [ratio for ratio in used if ratio is not None]
    return volume(known) if len(known) == len(used) else None


def worth(vm: Vm, _host: Host, _resource: str = CPU) -> Worth:
    """The more volume per byte of RAM the better."""
    ram = capacity.memory(vm)
    missing = [resource for resource in RESOURCES if capacity.mean(vm.readings, resource) is None]
    total = volume_of(vm)
    if not ram or total is None:
        return Worth(None, f"MISSING: {', '.join(missing) or capacity.memory_metric(vm)}")
    metric = capacity.memory_metric(vm)
    figures = [_figure(vm.readings[resource]) for resource in RESOURCES]
    ratio = total / ram
    return Worth(
        (ratio,),
        f"highest volume per footprint ({total:.3g} / {ram / 2**20:.0f} MiB)",
        (*figures, Figure("volume", total), measured(metric, ram, vm.readings[metric]),
         Figure("volume per byte", ratio, "1/bytes")),
    )  # fmt: skip


def _figure(reading: Reading) -> Figure:
    return measured(f"{reading.metric} mean", reading.mean, reading)


SELECTION = VmSelection(
    "volume",
    "the VM of the highest volume per footprint",
    "Wood and others, Black-box and gray-box strategies for virtual machine migration, NSDI 2007",
    worth,
)
