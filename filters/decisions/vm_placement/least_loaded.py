"""Least loaded: to the host with the lowest CPU use as a ratio.

As in load balancers: Sandpiper moves the largest VM to the host with the lowest volume (Wood and others,
NSDI 2007); here the load is CPU, and VMs are placed in decreasing order of it.
"""

from __future__ import annotations

from filters.decisions import capacity
from filters.decisions.picture import CPU, Host
from filters.decisions.vm_placement.best_fit import turn
from filters.decisions.vm_placement.choice import VmPlacement


def cost(host: Host) -> float | None:
    """CPU use as a ratio."""
    return capacity.used(host, CPU)


PLACEMENT = VmPlacement(
    "least_loaded",
    "the host with the lowest CPU use that can take it",
    "Wood and others, Sandpiper, NSDI 2007, with CPU as the load",
    cost,
    turn,
)
