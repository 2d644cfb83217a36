"""Minimum migration time: the VM with the least RAM, ties by the most CPU.

Beloglazov and Buyya, Concurrency and Computation 24, 2012: a migration takes as long as copying
the RAM, and the source has one link. The choice among equals is openstack-neat's
(minimum_migration_time_max_cpu).
"""

from __future__ import annotations

from filters.decisions import capacity
from filters.decisions.picture import CPU, Host, Vm
from filters.decisions.verdict import measured
from filters.decisions.vm_selection.choice import VmSelection, Worth


def worth(vm: Vm, _host: Host, _resource: str = CPU) -> Worth:
    """The less RAM the better, then the more CPU."""
    metric = capacity.memory_metric(vm)
    ram, cpu = capacity.memory(vm), capacity.mean(vm.readings, capacity.CPU_CORES)
    if ram is None or cpu is None:
        return Worth(None, f"MISSING: {metric if ram is None else capacity.CPU_CORES}")
    return Worth(
        (-ram, cpu),
        f"least {metric} ({ram / 2**20:.0f} MiB)",
        (measured(metric, ram, vm.readings[metric]),
         measured(capacity.CPU_CORES, cpu, vm.readings[capacity.CPU_CORES])),
    )  # fmt: skip


SELECTION = VmSelection(
    "minimum_migration_time",
    "the VM with the least RAM, among equals the most CPU",
    "Beloglazov and Buyya, Concurrency and Computation 24, 2012",
    worth,
)
