"""Choosing the VM to move away from a hot host, each way one file with one registration here."""

from __future__ import annotations

from filters.decisions.vm_selection import minimum_migration_time, most_cpu, volume
from filters.decisions.vm_selection.choice import VmSelection

REGISTRY: dict[str, VmSelection] = {
    module.SELECTION.name: module.SELECTION for module in (minimum_migration_time, volume, most_cpu)
}

__all__ = ["REGISTRY", "VmSelection"]
