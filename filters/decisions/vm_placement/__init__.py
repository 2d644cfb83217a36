"""Choosing where a VM goes, each way one file with one registration here."""

from __future__ import annotations

from filters.decisions.vm_placement import best_fit, least_loaded
from filters.decisions.vm_placement.choice import VmPlacement

REGISTRY: dict[str, VmPlacement] = {module.PLACEMENT.name: module.PLACEMENT for module in (best_fit, least_loaded)}

__all__ = ["REGISTRY", "VmPlacement"]
