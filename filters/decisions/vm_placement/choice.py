"""Placement protocol.

A placement orders the hosts for a VM, best first, and the VMs of all hot hosts to be placed.
Constraints decide whether a host may take the VM (filters.decisions.constraints.hosts). A new placement is one
file here with its functions and its PLACEMENT, one line in the registry, and one test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from filters.decisions.picture import Host, Vm


class VmPlacement(NamedTuple):
    """``cost`` of a host: the lowest is tried first; None: a figure is MISSING. ``turn`` of a VM with its
    host: the lowest is placed first. ``title`` explains a choice."""

    name: str
    title: str
    source: str
    cost: Callable[[Host], float | None]
    turn: Callable[[Vm], float]
