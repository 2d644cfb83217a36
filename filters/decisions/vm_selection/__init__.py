"""Selections of VMs on a hot host, each in one file with one registration here."""

from __future__ import annotations

from acquisition import plugins
from filters.decisions.vm_selection import minimum_migration_time, most_cpu, volume
from filters.decisions.vm_selection.choice import VmSelection

REGISTRY: dict[str, VmSelection] = {
    module.SELECTION.name: module.SELECTION for module in (minimum_migration_time, volume, most_cpu)
}


def selections() -> dict[str, VmSelection]:
    """Selections of this project and of other packages (entry point group ``shardpulse.selections``), by name."""
    return plugins.registered(plugins.SELECTIONS, REGISTRY)


__all__ = ["REGISTRY", "VmSelection", "selections"]
