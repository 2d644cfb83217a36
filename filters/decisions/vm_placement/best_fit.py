"""Best fit decreasing: largest VM first, to the fullest host that can take it.

Size and free space are CPU.

Beloglazov and Buyya, Concurrency and Computation 24, 2012, a modification of best fit decreasing for
bin packing (at most 11/9 of the optimal number of bins and 4: Johnson and others, SIAM J. Comput. 3, 1974);
openstack-neat best_fit_decreasing. It fills hosts, so that others can be emptied.
"""

from __future__ import annotations

from filters.decisions import capacity
from filters.decisions.picture import CPU, Host, Vm
from filters.decisions.vm_placement.choice import VmPlacement


def cost(host: Host) -> float | None:
    """Free cores."""
    used, cores = capacity.used(host, CPU), capacity.capacity(host, CPU)
    return (1.0 - used) * cores if used is not None and cores is not None else None


def turn(vm: Vm) -> float:
    """Sort key: VMs by decreasing CPU."""
    return -(capacity.demand(vm, CPU) or 0.0)


PLACEMENT = VmPlacement(
    "best_fit_decreasing",
    "the host with the least free CPU that can take it",
    "Beloglazov and Buyya, Concurrency and Computation 24, 2012",
    cost,
    turn,
)
