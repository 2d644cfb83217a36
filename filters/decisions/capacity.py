"""Capacity of hosts and demand of VMs, in cores, bytes, bytes per second (pure).

None where a figure is missing or was never valid: callers then abstain.
"""

from __future__ import annotations

from collections.abc import Mapping

from acquisition.model.derived import WAITING
from filters.decisions.picture import CPU, MEMORY, NETWORK, Host, Reading, Vm

CPU_CORES = "cpu_ratio"  #: of a VM or process, in cores
CPU_COUNT = "cpu_count"
MEMORY_ASSIGNED = "memory_assigned_bytes"
MEMORY_RESIDENT = "memory_resident_bytes"
MEMORY_TOTAL = "memory_total_bytes"
MEMORY_AVAILABLE = "memory_available_bytes"
LINK_SPEED = "link_speed_bytes_per_second"
RECEIVED = "network_receive_bytes_per_second"
SENT = "network_transmit_bytes_per_second"
PROCESS = "process"  #: the kind of what is no VM
_FRESH_SECONDS = 3.0


def mean(readings: Mapping[str, Reading], metric: str) -> float | None:
    """The moving average of a metric that was valid within the last 3 s and its interval."""
    reading = readings.get(metric)
    if reading is None or reading.stale_seconds is None:
        return None
    return reading.mean if reading.stale_seconds <= _FRESH_SECONDS + reading.interval else None


def waiting(host: Host) -> float | None:
    """Cores for which work of a host waits: what its guests lose in a second, in seconds."""
    share, busy, count = (mean(host.readings, metric) for metric in (WAITING, CPU, CPU_COUNT))
    if share is None or busy is None or count is None or share >= 1.0:
        return None
    return share / (1.0 - share) * busy * count


def memory_metric(vm: Vm) -> str:
    """Metric that stands for a VM's RAM: what it was given, whatever it uses of that now; for a process, given
    nothing, its resident set."""
    return MEMORY_RESIDENT if vm.kind == PROCESS else MEMORY_ASSIGNED


def memory(vm: Vm) -> float | None:
    """A VM's RAM in bytes: what a migration may have to copy and a destination must have. None where the size of the
    VM is unknown: it uses less than that, and a destination with room for what it uses may have none for it."""
    return mean(vm.readings, memory_metric(vm))


def demand(vm: Vm, resource: str) -> float | None:
    """Demand of a VM for a resource, absolute."""
    if resource == CPU:
        return mean(vm.readings, CPU_CORES)
    if resource == MEMORY:
        return memory(vm)
    if resource == NETWORK:
        return _busier(vm.readings)
    return None


def capacity(host: Host, resource: str) -> float | None:
    """Capacity of a host for a resource in all, in the unit of ``demand``; None where unknown or 0."""
    metric = {CPU: CPU_COUNT, MEMORY: MEMORY_TOTAL, NETWORK: LINK_SPEED}.get(resource)
    return (mean(host.readings, metric) or None) if metric is not None else None


def share(vm: Vm, host: Host, resource: str) -> float | None:
    """Share of a host that a VM would take, as a ratio of its capacity."""
    needed, there = demand(vm, resource), capacity(host, resource)
    return needed / there if needed is not None and there is not None else None


def used(host: Host, resource: str) -> float | None:
    """Part of a host in use now, as a ratio of its capacity."""
    return mean(host.readings, resource)


def unchecked(vm: Vm, host: Host) -> str:
    """Words for a VM and its destination where no constraint knows the network of one of them."""
    known = {host.name: used(host, NETWORK), vm.name: demand(vm, NETWORK) if vm.host else 0.0}
    missing = [name for name, value in known.items() if value is None]
    return f"; network of {' and '.join(missing)} is MISSING and was not checked" if missing else ""


def _busier(readings: Mapping[str, Reading]) -> float | None:
    received, sent = mean(readings, RECEIVED), mean(readings, SENT)
    return max(received, sent) if received is not None and sent is not None else None
