"""Most CPU: the VM that uses most of the resource its host lacks.

The greedy choice: the fewest moves that relieve a host, whatever the cost of copying. It is also openstack-neat's
choice among VMs of equal RAM (minimum_migration_time_max_cpu).
"""

from __future__ import annotations

from filters.decisions import capacity
from filters.decisions.picture import CPU, Host, Vm
from filters.decisions.verdict import measured
from filters.decisions.vm_selection.choice import VmSelection, Worth


def worth(vm: Vm, _host: Host, resource: str = CPU) -> Worth:
    """The more of the resource the better."""
    metric = capacity.CPU_CORES if resource == CPU else resource
    used = capacity.mean(vm.readings, metric)
    if used is None:
        return Worth(None, f"MISSING: {metric}")
    words = f"{resource.partition('_')[0]} ({used:.1%} of its host's)"
    words = f"CPU ({used:.3g} cores)" if resource == CPU else words
    return Worth((used,), f"most {words}", (measured(metric, used, vm.readings[metric]),))


SELECTION = VmSelection(
    "most_cpu",
    "the VM with the most CPU, memory or network, whichever its host lacks",
    "the greedy choice; openstack-neat minimum_migration_time_max_cpu among equals",
    worth,
)
