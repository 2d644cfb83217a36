"""Capacity of hosts and demand of VMs, in cores, bytes, bytes per second (pure).

None if a figure is missing or was never valid: callers then abstain.
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
PROCESS = "process"  #: kind of an entity that is not a VM
_FRESH_SECONDS = 3.0


def mean(readings: Mapping[str, Reading], metric: str) -> float | None:
    """The moving average of a metric that was valid within the last 3 s plus its interval."""
    reading = readings.get(metric)
    if reading is None or reading.stale_seconds is None:
        return None
    return reading.mean if reading.stale_seconds <= _FRESH_SECONDS + reading.interval else None


def waiting(host: Host) -> float | None:
    """Cores for which work of a host waits: seconds lost by its guests per second."""
    share, busy, count = (mean(host.readings, metric) for metric in (WAITING, CPU, CPU_COUNT))
    if share is None or busy is None or count is None or share >= 1.0:
        return None
    return share / (1.0 - share) * busy * count


def memory_metric(vm: Vm) -> str:
    """Metric of a VM's RAM: the assigned memory, whatever it uses of it now; for a process, which has none assigned,
    the resident set."""
    return MEMORY_RESIDENT if vm.kind == PROCESS else MEMORY_ASSIGNED


def memory(vm: Vm) -> float | None:
    """A VM's RAM in bytes: what a migration may have to copy and a destination must have. None if the size of the VM is
    unknown: its use is less, and a destination with room for the use may have none for the VM."""
    return mean(vm.readings, memory_metric(vm))


def demand(vm: Vm, resource: str) -> float | None:
    """Absolute demand of a VM for a resource."""
    if resource == CPU:
        return mean(vm.readings, CPU_CORES)
    if resource == MEMORY:
        return memory(vm)
    if resource == NETWORK:
        return _busier(vm.readings)
    return None


def capacity(host: Host, resource: str) -> float | None:
    """Total capacity of a host for a resource, in the unit of ``demand``; None if unknown or 0."""
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
    """Note for a VM and its destination if the network use of one of them is MISSING, so no constraint checked it."""
    known = {host.name: used(host, NETWORK), vm.name: demand(vm, NETWORK) if vm.host else 0.0}
    missing = [name for name, value in known.items() if value is None]
    return f"; network of {' and '.join(missing)} is MISSING and was not checked" if missing else ""


def _busier(readings: Mapping[str, Reading]) -> float | None:
    received, sent = mean(readings, RECEIVED), mean(readings, SENT)
    return max(received, sent) if received is not None and sent is not None else None
