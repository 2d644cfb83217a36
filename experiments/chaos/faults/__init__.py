"""What each kind of fault does: context managers that make a fault and heal it, one file for each kind of target."""

from experiments.chaos.faults import growing, links, memory, nodes, processes
from experiments.chaos.faults.registry import REGISTRY, Skipped

__all__ = ["REGISTRY", "Skipped", "growing", "links", "memory", "nodes", "processes"]
