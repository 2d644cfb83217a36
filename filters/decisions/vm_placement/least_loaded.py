"""Least loaded: to the host that uses the smallest ratio of its CPU.

The rule of load balancers: Sandpiper moves the greatest VM to the host of the lowest volume (Wood and others,
NSDI 2007); here the load is the CPU, and VMs are placed in decreasing order of it.
"""

from __future__ import annotations

from filters.decisions import capacity
from filters.decisions.picture import CPU, Host
from filters.decisions.vm_placement.best_fit import turn
from filters.decisions.vm_placement.choice import VmPlacement


def cost(host: Host) -> float | None:
    """The ratio of CPU that is in use."""
    return capacity.used(host, CPU)


PLACEMENT = VmPlacement(
    "least_loaded",
    "the host with the lowest CPU use that can take it",
    "Wood and others, Sandpiper, NSDI 2007, with CPU as the load",
    cost,
    turn,
)
