"""Most CPU: the VM that takes the most of what its host lacks.

The greedy choice: the fewest moves that relieve a host, whatever they cost to copy. It is also what openstack-neat
takes among VMs of equal RAM (minimum_migration_time_max_cpu).
"""

from __future__ import annotations

from filters.decisions import capacity
from filters.decisions.picture import Host, Vm
from filters.decisions.verdict import measured
from filters.decisions.vm_selection.choice import VmSelection, Worth


def worth(vm: Vm, _host: Host) -> Worth:
    """The more CPU the better."""
    cpu = capacity.mean(vm.readings, capacity.CPU_CORES)
    if cpu is None:
        return Worth(None, f"MISSING: {capacity.CPU_CORES}")
    reading = vm.readings[capacity.CPU_CORES]
    return Worth((cpu,), f"most CPU ({cpu:.3g} cores)", (measured(capacity.CPU_CORES, cpu, reading),))


SELECTION = VmSelection(
    "most_cpu",
    "the VM with the most CPU",
    "the greedy choice; openstack-neat minimum_migration_time_max_cpu among equals",
    worth,
)
