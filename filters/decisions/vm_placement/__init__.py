"""Placements of VMs on hosts, each in one file with one registration here."""

from __future__ import annotations

from acquisition import plugins
from filters.decisions.vm_placement import best_fit, least_loaded
from filters.decisions.vm_placement.choice import VmPlacement

REGISTRY: dict[str, VmPlacement] = {module.PLACEMENT.name: module.PLACEMENT for module in (best_fit, least_loaded)}


def placements() -> dict[str, VmPlacement]:
    """Placements of this project and of other packages (entry point group ``shardpulse.placements``), by name."""
    return plugins.registered(plugins.PLACEMENTS, REGISTRY)


__all__ = ["REGISTRY", "VmPlacement", "placements"]
