"""The metrics and kernels that are installed, found through entry points: this package knows none by itself.

The group ``shardpulse.metrics`` names mappings from resource set to ResourceSet, the group
``shardpulse.kernels`` mappings from name to kernel, the group ``shardpulse.checks`` functions
``(settings, name)`` that raise ConfigError for what else is registered nowhere. Unlike
``acquisition.config.loader`` this imports the packages that define them.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from acquisition.config import loader as config
from acquisition.model.metric import ResourceSet

GROUP = "shardpulse.metrics"
KERNELS = "shardpulse.kernels"
CHECKS = "shardpulse.checks"


def registered() -> dict[str, list[str]]:
    """Resource set -> names of its metrics, of every installed package."""
    sets: dict[str, ResourceSet] = {}
    for entry in entry_points(group=GROUP):
        sets.update(entry.load())
    return {name: [metric.name for metric in found.metrics] for name, found in sets.items()}


def kernels() -> list[str]:
    """The names of the kernels of every installed package."""
    return [name for entry in entry_points(group=KERNELS) for name in entry.load()]


def load_checked(path: str | None = None) -> config.Settings:
    """``config.load`` that refuses unknown metrics, kernels and rules as well, naming key and name (ConfigError)."""
    settings = config.load(path)
    name = config.find(path) or "configuration"
    config.check_metrics(settings, registered(), name)
    config.check_kernels(settings, kernels(), name)
    for entry in entry_points(group=CHECKS):
        entry.load()(settings, name)
    return settings
