"""The metrics that are installed, found through entry points: this package knows none by itself.

The group ``shardpulse.metrics`` names mappings from resource set to ResourceSet. Unlike
``acquisition.config.loader`` this imports the packages that define metrics.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from acquisition.config import loader as config
from acquisition.model.metric import ResourceSet

GROUP = "shardpulse.metrics"


def registered() -> dict[str, list[str]]:
    """Resource set -> names of its metrics, of every installed package."""
    sets: dict[str, ResourceSet] = {}
    for entry in entry_points(group=GROUP):
        sets.update(entry.load())
    return {name: [metric.name for metric in found.metrics] for name, found in sets.items()}


def load_checked(path: str | None = None) -> config.Settings:
    """``config.load`` that refuses unknown metrics as well, naming key and metric (ConfigError)."""
    settings = config.load(path)
    config.check_metrics(settings, registered(), config.find(path) or "configuration")
    return settings
