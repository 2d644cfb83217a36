"""Selection protocol.

A selection ranks the VMs of a hot host that may be moved. It is a pure function ``(VM, host, resource) -> Worth``, with
the resource to free on the host; a new one is one file here with its function and its SELECTION, one line in the
registry, and one test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from filters.decisions.picture import Host, Vm
from filters.decisions.verdict import Figure


class Worth(NamedTuple):
    """``key`` orders VMs, the greatest is moved first; None: a figure is MISSING, named by ``reason``."""

    key: tuple[float, ...] | None
    reason: str
    figures: tuple[Figure, ...] = ()


class VmSelection(NamedTuple):
    """One registration; ``source`` is its citation."""

    name: str
    title: str
    source: str
    worth: Callable[[Vm, Host, str], Worth]
